-- Endpoints that events are posted to, how far each partition of each has got, and what
-- became of the last attempts. late_events has up to which place of its log a partition may
-- have events whose time is far from when they were accepted. An earlier program would store
-- such events without noting it, so it cannot use the tables after this.
CREATE TABLE IF NOT EXISTS webhooks (
  id          $KEY    NOT NULL,
  url         $TEXT   NOT NULL,
  types       $TEXT   NOT NULL,
  format      $KEY    NOT NULL,
  batch       $NUMBER NOT NULL,
  status      $KEY    NOT NULL,
  reason      $TEXT   NOT NULL,
  revision    $NUMBER NOT NULL,
  secret      $NUMBER NOT NULL,
  secret_mark $KEY    NOT NULL,
  rotated     $TIME,
  failing     $TIME,
  created     $TIME   NOT NULL,
  updated     $TIME   NOT NULL,
  PRIMARY KEY (id)
) $TABLE;
CREATE TABLE IF NOT EXISTS webhook_lanes (
  webhook   $KEY      NOT NULL,
  part      $NUMBER   NOT NULL,
  pos_major $POSITION NOT NULL,
  pos_minor $POSITION NOT NULL,
  item      $NUMBER   NOT NULL,
  to_major  $POSITION NOT NULL,
  to_minor  $POSITION NOT NULL,
  to_item   $NUMBER   NOT NULL,
  attempts  $NUMBER   NOT NULL,
  since     $TIME,
  due       $TIME,
  PRIMARY KEY (webhook, part)
) $TABLE;
CREATE TABLE IF NOT EXISTS webhook_deliveries (
  webhook $KEY    NOT NULL,
  slot    $NUMBER NOT NULL,
  number  $NUMBER NOT NULL,
  message $KEY    NOT NULL,
  at      $TIME   NOT NULL,
  part    $NUMBER NOT NULL,
  events  $NUMBER NOT NULL,
  attempt $NUMBER NOT NULL,
  outcome $KEY    NOT NULL,
  status  $NUMBER NOT NULL,
  error   $TEXT   NOT NULL,
  took    $NUMBER NOT NULL,
  PRIMARY KEY (webhook, slot)
) $TABLE;
CREATE TABLE IF NOT EXISTS late_events (
  part      $NUMBER   NOT NULL,
  pos_major $POSITION NOT NULL,
  pos_minor $POSITION NOT NULL,
  PRIMARY KEY (part)
) $TABLE;
DELETE FROM late_events;
INSERT INTO late_events (part, pos_major, pos_minor) SELECT part, pos_major, pos_minor FROM cursors WHERE follower = 'store';
