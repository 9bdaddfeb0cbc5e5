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
