SELECT number FROM journey_publish WHERE id = 1 FOR SHARE
