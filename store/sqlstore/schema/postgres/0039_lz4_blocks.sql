-- Blocks of checkpoints are compressed by lz4 from now on, where the server has it: PostgreSQL
-- 14 and newer, built with it. What is there already is read as it is.
-- Compressing by pglz, the default, took a third of the time of a checkpoint.
-- Readable from version 37
DO $$ BEGIN EXECUTE 'ALTER TABLE journey_blocks ALTER COLUMN data SET COMPRESSION lz4'; EXCEPTION WHEN feature_not_supported OR syntax_error OR invalid_parameter_value THEN NULL; END $$;
