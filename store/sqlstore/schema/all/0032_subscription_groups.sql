-- Subscription groups that people choose by name on the page of their mail. Groups that
-- have no row go on as they do.
-- Readable from version 31
CREATE TABLE IF NOT EXISTS subscription_groups (
  id          $KEY    NOT NULL,
  name        $TEXT   NOT NULL,
  description $TEXT   NOT NULL,
  is_public   $NUMBER NOT NULL,
  sort        $NUMBER NOT NULL,
  created     $TIME   NOT NULL,
  updated     $TIME   NOT NULL,
  PRIMARY KEY (id)
) $TABLE;
