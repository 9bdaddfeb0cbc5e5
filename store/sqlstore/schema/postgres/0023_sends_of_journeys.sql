-- What a send is to journeys: the journey and the step that sent it (empty: none did), the
-- variant and the occurrence of the person there; when it was opened and clicked first
-- (NULL: never; first_human_open: not by a machine); and whether it counts for no cap.
ALTER TABLE sends
  ADD COLUMN IF NOT EXISTS journey text NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS step text NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS variant text NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS occurrence integer NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS first_open timestamptz(3),
  ADD COLUMN IF NOT EXISTS first_human_open timestamptz(3),
  ADD COLUMN IF NOT EXISTS first_click timestamptz(3),
  ADD COLUMN IF NOT EXISTS ignores_caps integer NOT NULL DEFAULT 0;
