-- Targets of links in mails that are too long for the links themselves, by their hashes;
-- used is when a mail with one was last made. Programs of before make no such links.
-- Readable from version 31
CREATE TABLE IF NOT EXISTS links (
  hash   $KEY  NOT NULL,
  target $TEXT NOT NULL,
  used   $TIME NOT NULL,
  PRIMARY KEY (hash)
) $TABLE;
