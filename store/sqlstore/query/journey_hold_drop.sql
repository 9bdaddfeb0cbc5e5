DELETE FROM journey_holds WHERE journey = ?
