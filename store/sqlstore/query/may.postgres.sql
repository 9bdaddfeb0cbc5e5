-- A table that is not there is another check.
SELECT COALESCE(has_table_privilege(to_regclass(?), ?), true)
