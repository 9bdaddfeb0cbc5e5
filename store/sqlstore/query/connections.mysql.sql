SELECT LEAST(CAST(@@GLOBAL.max_connections AS SIGNED), CASE WHEN @@SESSION.max_user_connections <= 0 THEN 2147483647 ELSE CAST(@@SESSION.max_user_connections AS SIGNED) END)
