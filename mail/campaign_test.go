package mail

import (
	"strings"
	"testing"
)

func TestCampaignOf(t *testing.T) {
	long := strings.Repeat("ä", MaxTagBytes)
	for _, x := range []struct{ metadata, tags, want string }{
		{"", "", ""},
		{"", "spring,offer", "spring"},
		{`{"campaign":"x"}`, "spring", "spring"},
		{`{"campaign_id":"a\u00e4","extras":{"campaign_id":"other"}}`, "spring", "aä"},
		{`{"extras":{"campaign_id":"other"}}`, "spring", "spring"},
		{`{"campaign_id":7}`, "spring", "spring"},
		{`{"campaign_id":""}`, "", ""},
		{`{"campaign_id":"` + long + `"}`, "", long[:MaxTagBytes]},
		{`{"campaign_id":"x"`, "spring", "spring"},
	} {
		if got := CampaignOf(x.metadata, x.tags); got != x.want {
			t.Errorf("CampaignOf(%q, %q) is %q, want %q", x.metadata, x.tags, got, x.want)
		}
	}
}
