INSERT INTO reactions (bucket, stripe, campaign, journey, step, variant, kind, link, machine, count, firsts, human_firsts) VALUES $ROWS
ON DUPLICATE KEY UPDATE count = count + VALUES(count), firsts = firsts + VALUES(firsts), human_firsts = human_firsts + VALUES(human_firsts)
