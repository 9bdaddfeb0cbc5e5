-- Journeys that were resumed without the messages that were due by then.
CREATE TABLE IF NOT EXISTS journey_skips (
  journey $NUMBER NOT NULL,
  until   $TIME   NOT NULL,
  PRIMARY KEY (journey)
) $TABLE;
