DELETE FROM journey_context WHERE ended < ?
