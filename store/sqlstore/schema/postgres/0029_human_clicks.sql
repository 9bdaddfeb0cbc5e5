-- When a send was clicked first by a person (NULL: never), and what its row remembers of
-- its clicks, by which they are judged (mail.Clicks; empty: nothing).
ALTER TABLE sends
  ADD COLUMN IF NOT EXISTS first_human_click timestamptz(3),
  ADD COLUMN IF NOT EXISTS clicks text NOT NULL DEFAULT '';
