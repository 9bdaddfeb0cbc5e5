-- What mail has sent and got back, counted by the hour: of which mail, and of which kind.
-- bucket is when the hour begins. Processes write rows of different stripes; add them up.
-- Readable from version 29
CREATE TABLE IF NOT EXISTS reactions (
  bucket       timestamptz(3)   NOT NULL,
  stripe       integer          NOT NULL,
  campaign     text COLLATE "C" NOT NULL,
  journey      text COLLATE "C" NOT NULL,
  step         text COLLATE "C" NOT NULL,
  variant      text COLLATE "C" NOT NULL,
  kind         text COLLATE "C" NOT NULL,
  link         integer          NOT NULL,
  machine      integer          NOT NULL,
  count        bigint           NOT NULL,
  firsts       bigint           NOT NULL,
  human_firsts bigint           NOT NULL,
  PRIMARY KEY (bucket, stripe, campaign, journey, step, variant, kind, link, machine)
);
