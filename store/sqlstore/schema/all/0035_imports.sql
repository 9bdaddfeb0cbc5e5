-- Imports whose files come in pieces by HTTP, which batches in the logs they have written,
-- and which lines were refused. Programs of before know nothing of them.
-- Readable from version 34
CREATE TABLE IF NOT EXISTS imports (
  id          $KEY    NOT NULL,
  name        $TEXT   NOT NULL,
  options     $TEXT   NOT NULL,
  size        $NUMBER NOT NULL,
  account     $TEXT   NOT NULL,
  state       $KEY    NOT NULL,
  next_offset $NUMBER NOT NULL,
  lines_read  $NUMBER NOT NULL,
  taken       $NUMBER NOT NULL,
  refused     $NUMBER NOT NULL,
  removed     $NUMBER NOT NULL,
  reader      $TEXT   NOT NULL,
  claim       $KEY    NOT NULL,
  last_piece  $TEXT   NOT NULL,
  created     $TIME   NOT NULL,
  updated     $TIME   NOT NULL,
  ended       $TIME,
  PRIMARY KEY (id)
) $TABLE;
CREATE TABLE IF NOT EXISTS import_units (
  import_id $KEY  NOT NULL,
  id        $KEY  NOT NULL,
  batches   $TEXT NOT NULL,
  PRIMARY KEY (import_id, id)
) $TABLE;
CREATE TABLE IF NOT EXISTS import_refused (
  import_id $KEY    NOT NULL,
  line      $NUMBER NOT NULL,
  reason    $TEXT   NOT NULL,
  PRIMARY KEY (import_id, line)
) $TABLE;
