-- People who sign in to the dashboard, their sessions, links for the first of them, and
-- what was changed by sessions. Of passwords, sessions and links only hashes are kept.
-- Readable from version 29
CREATE TABLE IF NOT EXISTS accounts (
  id       $KEY  NOT NULL,
  name     $KEY  NOT NULL,
  role     $KEY  NOT NULL,
  password $TEXT NOT NULL,
  created  $TIME NOT NULL,
  updated  $TIME NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (name)
) $TABLE;
CREATE TABLE IF NOT EXISTS account_sessions (
  hash    $KEY  NOT NULL,
  account $KEY  NOT NULL,
  created $TIME NOT NULL,
  ends    $TIME NOT NULL,
  PRIMARY KEY (hash)
) $TABLE;
CREATE TABLE IF NOT EXISTS account_setups (
  hash $KEY  NOT NULL,
  ends $TIME NOT NULL,
  PRIMARY KEY (hash)
) $TABLE;
CREATE TABLE IF NOT EXISTS audit_log (
  id      $KEY    NOT NULL,
  at      $TIME   NOT NULL,
  account $KEY    NOT NULL,
  name    $KEY    NOT NULL,
  method  $KEY    NOT NULL,
  path    $TEXT   NOT NULL,
  status  $NUMBER NOT NULL,
  detail  $TEXT   NOT NULL,
  PRIMARY KEY (id)
) $TABLE;
