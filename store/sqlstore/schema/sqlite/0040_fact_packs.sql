-- A row of journey_facts may have many facts (fact_packs.go): no older program reads those.
SELECT 1;
