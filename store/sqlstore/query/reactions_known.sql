SELECT DISTINCT campaign, journey, step, variant, link FROM reactions WHERE bucket = ? LIMIT ?
