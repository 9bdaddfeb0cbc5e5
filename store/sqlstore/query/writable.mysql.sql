SELECT CAST(@@GLOBAL.read_only AS CHAR) IN ('0', 'OFF')
