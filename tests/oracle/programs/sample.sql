-- Joins, groups, sorting, text and recursion in an in-memory database.
CREATE TABLE item(id INTEGER PRIMARY KEY, kind INTEGER, name TEXT, price REAL);
CREATE TABLE sale(item INTEGER, day INTEGER, count INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6000)
INSERT INTO item SELECT i, i * 7 % 31, 'item ' || (i * 7919 % 10007), i * 1.25 FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
INSERT INTO sale SELECT i * 31 % 6000 + 1, i % 365, i % 9 FROM n;
CREATE INDEX sale_item ON sale(item);
SELECT sum(total) FROM (
    SELECT kind, sum(count * price) AS total FROM item JOIN sale ON sale.item = item.id
    GROUP BY kind ORDER BY total DESC);
SELECT count(*) FROM item WHERE name LIKE '%77%' OR upper(name) GLOB '*9?9*';
SELECT group_concat(name, ',') FROM (SELECT name FROM item ORDER BY name DESC LIMIT 20);
SELECT sum(r) FROM (SELECT rank() OVER (PARTITION BY day ORDER BY count, item) AS r FROM sale);
WITH RECURSIVE f(i, a, b) AS (
    SELECT 1, 0, 1 UNION ALL SELECT i + 1, b, (a + b) % 1000003 FROM f WHERE i < 60000)
SELECT max(a) FROM f;
UPDATE item SET price = price * 1.1 WHERE id IN (SELECT item FROM sale WHERE day < 40);
DELETE FROM sale WHERE day % 7 = 3;
SELECT printf('%.3f', sum(price)), count(DISTINCT kind) FROM item;
SELECT a.day, count(*) FROM sale a JOIN sale b ON a.item = b.item AND a.day < b.day
GROUP BY a.day ORDER BY 2 DESC LIMIT 3;
