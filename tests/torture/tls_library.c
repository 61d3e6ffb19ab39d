/* Row 17: a library that needs most of the static TLS surplus when it is loaded late. */
static __thread char room[400] __attribute__((tls_model("initial-exec")));

char *tls_room(void)
{
    return room;
}
