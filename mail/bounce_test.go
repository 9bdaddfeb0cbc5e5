package mail

import "testing"

func TestBounceClassOf(t *testing.T) {
	for _, test := range []struct {
		code, text string
		want       BounceClass
	}{
		{"5.1.1", "", BounceHard}, {"5.1.2", "", BounceHard}, {"5.1.3", "", BounceHard}, {"5.1.6", "", BounceHard}, {"5.1.10", "", BounceHard}, {"5.2.1", "", BounceHard},
		{"5.1.1", "listed at spamhaus", BounceHard}, // the code decides
		{"4.1.1", "", BounceSoft}, {"4.2.1", "", BounceSoft}, {"5.1.0", "", BounceSoft}, {"5.2.4", "", BounceSoft},
		{"5.2.2", "", BounceOther}, {"4.2.2", "", BounceOther}, {"5.2.3", "", BounceOther}, {"5.1.7", "", BounceOther}, {"5.1.8", "", BounceOther},
		{"5.6.1", "", BounceOther}, {"5.3.4", "", BounceOther}, {"4.4.7", "blocked", BounceOther}, {"5.10.1", "", BounceOther},
		{"5.7.1", "", BounceBlock}, {"4.7.28", "", BounceBlock},
		{"5.0.0", "refused", BounceOther}, {"5.0.0", "Blocked by Spamhaus", BounceBlock}, {"", "on our BlockList", BounceBlock},
		{"", "no such user", BounceOther}, {"", "", BounceOther}, {"2.1.5", "", BounceOther}, {"nonsense", "", BounceOther},
	} {
		if got := BounceClassOf(test.code, test.text); got != test.want {
			t.Errorf("%s %q is %s, want %s", test.code, test.text, got, test.want)
		}
	}
}

// Parts of words, addresses and hosts are no words that speak of a list.
func TestSaysListed(t *testing.T) {
	for text, want := range map[string]bool{
		"550 <ann@marblehead.example>: no such user": false, "550 ann@marblehead.example: no such user": false, "550 marblehead.example: no such user": false,
		"550 ann@x is not listed in directory": false, "550 User isn't listed": false, "550 Not currently listed": false, "550 ann is unlisted": false, "450 Greylisted, try later": false,
		"550 <rbl@listed.example> unknown": false, "550 <rbl.example> has no ann": false, "550 ann@spamhaus.example: unknown": false, "550 (blocked@x.example)": false, "": false,
		"554 Client host [192.0.2.1] blocked using zen.spamhaus.org": true, "550 192.0.2.1 is listed at x": true, "550 on our BLACK LIST": true, "550 block-listed": true, "550 blacklisted": true,
		"550 RBL": true, "550 (rbl2) no": true, "550 see bl.barracudacentral.org": true, "550 in a DNSBL": true, "550 bad reputation.": true, "550 SURBL": true, "550 refused; see <https://www.spamhaus.org/query>": true,
		"550 <ann@example.com>: sender is listed": true, "550 not accepted: listed": true, "550 ann is not listed, you are blocked": true, "550 X_RBL_1": true,
	} {
		if got := SaysListed(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestNotOfAddress(t *testing.T) {
	for code, want := range map[string]bool{"": false, "5.1.1": false, "5.2.1": false, "5.2.2": true, "4.2.3": true, "5.1.8": true, "5.3.4": true, "5.6.0": true, "5.7.26": true, "5.4.1": false} {
		if got := NotOfAddress(code); got != want {
			t.Errorf("%s: %v, want %v", code, got, want)
		}
	}
}

func TestEnhancedCode(t *testing.T) {
	for _, test := range []struct {
		reply, code string
		bare        bool
	}{
		{"5.1.1 no such user", "5.1.1", false}, {"550 5.1.1 no such user", "5.1.1", false}, {"550-5.1.1 no", "5.1.1", false}, {"550 #5.1.0 no", "5.1.0", false},
		{"smtp; 550 5.1.10 no", "5.1.10", false}, {"SMTP;451 4.7.1 later", "4.7.1", false},
		{"550 no such user", "", true}, {"550 4.1.1 of another class", "", true}, {"550 5.1.1.9 is a machine", "", true}, {"5505.1.1 no", "", false},
		{"x-postfix; unknown", "", false}, {"", "", false}, {"5.1.1x", "", false}, {"3.1.1 no", "", false},
	} {
		if code, bare := EnhancedCode(test.reply); code != test.code || bare != test.bare {
			t.Errorf("%q: %q, %v, want %q, %v", test.reply, code, bare, test.code, test.bare)
		}
	}
}
