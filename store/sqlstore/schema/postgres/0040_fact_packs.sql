-- A row of journey_facts may have many facts (fact_packs.go): no older program reads those.
-- They are compressed by lz4, where the server has it, as blocks of checkpoints are.
DO $$ BEGIN EXECUTE 'ALTER TABLE journey_facts ALTER COLUMN body SET COMPRESSION lz4'; EXCEPTION WHEN feature_not_supported OR syntax_error OR invalid_parameter_value THEN NULL; END $$;
