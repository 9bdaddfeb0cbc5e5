-- Where people are in journeys, as Redis had it at one commit of each partition. Each
-- list or block of records has two rows, of which one is valid: that of the highest
-- number that is not above the checkpoint's.
CREATE TABLE IF NOT EXISTS journey_checkpoints (
  part      $NUMBER   NOT NULL,
  stamp     $NUMBER   NOT NULL,
  pos_major $POSITION NOT NULL,
  pos_minor $POSITION NOT NULL,
  notes     $TEXT     NOT NULL,
  saved     $TIME     NOT NULL,
  PRIMARY KEY (part)
) $TABLE;
CREATE TABLE IF NOT EXISTS journey_blocks (
  part    $NUMBER   NOT NULL,
  journey $NUMBER   NOT NULL,
  unit    $NUMBER   NOT NULL,
  slot    $NUMBER   NOT NULL,
  number  $POSITION NOT NULL,
  hash    $NUMBER   NOT NULL,
  data    $BYTES    NOT NULL,
  PRIMARY KEY (part, journey, unit, slot)
) $TABLE;
-- Journeys that stand until an operator decides, and why.
CREATE TABLE IF NOT EXISTS journey_holds (
  journey $NUMBER NOT NULL,
  reason  $TEXT   NOT NULL,
  since   $TIME   NOT NULL,
  PRIMARY KEY (journey)
) $TABLE;
