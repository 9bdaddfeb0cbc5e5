package mail

import (
	"encoding/json"
	"strings"
)

// CampaignOf returns the campaign that a mail is counted under: the member campaign_id
// of its metadata, which calls of Braze's API set, else its first tag. It is cut to
// MaxTagBytes. Empty: the mail is of none.
func CampaignOf(metadata, tags string) string {
	if strings.Contains(metadata, `"campaign_id"`) {
		var named struct {
			Campaign string `json:"campaign_id"`
		}
		if json.Unmarshal([]byte(metadata), &named) == nil && named.Campaign != "" {
			return Clip(named.Campaign, MaxTagBytes)
		}
	}
	first, _, _ := strings.Cut(tags, ",")
	return Clip(first, MaxTagBytes)
}
