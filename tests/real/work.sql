-- Joins, groups, indices, text and JSON functions, windows. @ROWS@ is put in by the script.
CREATE TABLE item(id INTEGER PRIMARY KEY, kind INT, name TEXT, price REAL);
CREATE TABLE sale(id INTEGER PRIMARY KEY, item INT, day INT, amount INT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
    INSERT INTO item SELECT i, i * 7919 % 31, printf('item-%05d-%x', i * 7919 % 10007, i),
        i * 31 % 997 / 10.0 FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < @ROWS@)
    INSERT INTO sale SELECT i, 1 + i * 7919 % 2000, i * 104729 % 365, 1 + i % 9 FROM n;
CREATE INDEX sale_item ON sale(item, day);
ANALYZE;
SELECT kind, count(*), round(sum(price * amount), 2) FROM sale JOIN item ON item.id = sale.item
    GROUP BY kind ORDER BY kind;
SELECT name, s FROM (SELECT item, sum(amount) AS s FROM sale GROUP BY item) JOIN item ON item.id = item
    ORDER BY s DESC, name LIMIT 20;
SELECT count(*) FROM sale JOIN item ON item.id = sale.item WHERE name LIKE '%9-4%' AND day > 100;
SELECT sum(json_extract(json_object('a', amount, 'd', day), '$.a')) FROM sale WHERE id % 3 = 0;
SELECT max(r) FROM (SELECT rank() OVER (PARTITION BY item ORDER BY amount, id) AS r FROM sale);
SELECT substr(group_concat(name, ','), 1, 200) FROM
    (SELECT DISTINCT upper(replace(name, '-', '_')) AS name FROM item ORDER BY 1);
UPDATE sale SET amount = amount + (SELECT kind FROM item WHERE id = sale.item) WHERE day % 2 = 0;
DELETE FROM sale WHERE day % 5 = 0;
SELECT count(*), sum(amount), sum(id) FROM sale;
