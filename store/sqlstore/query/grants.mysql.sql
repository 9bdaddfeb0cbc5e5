-- What the user itself was granted. A right that comes by a role is not here.
SELECT PRIVILEGE_TYPE FROM information_schema.USER_PRIVILEGES WHERE GRANTEE = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')
UNION SELECT PRIVILEGE_TYPE FROM information_schema.SCHEMA_PRIVILEGES
WHERE GRANTEE = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''') AND DATABASE() LIKE TABLE_SCHEMA
