INSERT INTO reactions AS t (bucket, stripe, campaign, journey, step, variant, kind, link, machine, count, firsts, human_firsts) VALUES $ROWS
ON CONFLICT (bucket, stripe, campaign, journey, step, variant, kind, link, machine) DO UPDATE
SET count = t.count + excluded.count, firsts = t.firsts + excluded.firsts, human_firsts = t.human_firsts + excluded.human_firsts
