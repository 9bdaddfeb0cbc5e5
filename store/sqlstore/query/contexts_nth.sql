SELECT ended FROM journey_context WHERE ended < ? ORDER BY ended LIMIT 1 OFFSET ?
