-- Readable from version 26
-- What people entered journeys with, of those who wait in one that asks for it later.
CREATE TABLE IF NOT EXISTS journey_context (
  part       $NUMBER NOT NULL,
  number     $NUMBER NOT NULL,
  journey    $NUMBER NOT NULL,
  entered    $NUMBER NOT NULL,
  occurrence $NUMBER NOT NULL,
  body       $TEXT   NOT NULL,
  ended      $TIME,
  PRIMARY KEY (part, number, journey),
  INDEX journey_context_ended (ended)
) $TABLE;
