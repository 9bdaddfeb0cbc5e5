SELECT COUNT(*) FROM journey_holds
