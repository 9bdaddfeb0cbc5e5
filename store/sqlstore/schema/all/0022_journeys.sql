-- Journeys, the versions of them that were published, and the facts that those ask for.
-- A program that knows none of it would store events past a publish and write no facts
-- of them: so there is no earlier version that can use the tables after this one.
CREATE TABLE IF NOT EXISTS journeys (
  number   $NUMBER NOT NULL,
  id       $KEY    NOT NULL,
  name     $KEY    NOT NULL,
  status   $KEY    NOT NULL,
  version  $NUMBER NOT NULL,
  revision $NUMBER NOT NULL,
  draft    $TEXT   NOT NULL,
  created  $TIME   NOT NULL,
  updated  $TIME   NOT NULL,
  PRIMARY KEY (number),
  UNIQUE (id)
) $TABLE;
CREATE TABLE IF NOT EXISTS journey_versions (
  journey  $NUMBER NOT NULL,
  version  $NUMBER NOT NULL,
  document $TEXT   NOT NULL,
  names    $TEXT   NOT NULL,
  created  $TIME   NOT NULL,
  ended    $TIME,
  PRIMARY KEY (journey, version)
) $TABLE;
CREATE TABLE IF NOT EXISTS journey_publish (
  id     $NUMBER NOT NULL,
  number $NUMBER NOT NULL,
  PRIMARY KEY (id)
) $TABLE;
CREATE TABLE IF NOT EXISTS journey_facts (
  part      $NUMBER   NOT NULL,
  pos_major $POSITION NOT NULL,
  pos_minor $POSITION NOT NULL,
  item      $NUMBER   NOT NULL,
  number    $NUMBER   NOT NULL,
  kind      $NUMBER   NOT NULL,
  name      $KEY      NOT NULL,
  happened  $TIME     NOT NULL,
  body      $TEXT     NOT NULL,
  PRIMARY KEY (part, pos_major, pos_minor, item, number, kind)
) $TABLE;
