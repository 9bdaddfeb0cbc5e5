package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Entries of hooks are read from the file, their secrets from there, from a file of their
// own, or from the environment.
func TestHooks(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "secret")
	if err := os.WriteFile(file, []byte(" in-a-file-of-its-own\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := mustLoad(t, `
hooks:
  a-b: {provider: postmark, secret: in-the-configuration}
  c: {provider: sendinblue, secret_file: `+file+`, consent: false}
  d: {provider: sns, topics: ["arn:aws:sns:eu-west-1:123456789012:x"]}
  e: {provider: mailgun}
`, []string{"SLUICE_HOOKS_A_B_SECRET_PREVIOUS=in-the-environment", "SLUICE_HOOKS_E_SECRET=key-0123456789abcdef"}, nil)
	all, err := c.Sources()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		name, provider string
		secrets        []string
		consent, armed bool
	}{
		{"a-b", "postmark", []string{"in-the-configuration", "in-the-environment"}, true, true},
		{"c", "brevo", []string{"in-a-file-of-its-own"}, false, true},
		{"d", "ses", nil, true, true},
		{"e", "mailgun", []string{"key-0123456789abcdef"}, true, true},
	} {
		if s := &all[i]; s.Name != want.name || s.Provider.Name != want.provider || !slices.Equal(s.Secrets, want.secrets) || s.Consent != want.consent || s.Armed() != want.armed {
			t.Errorf("%d: %+v, want %+v", i, s, want)
		}
	}
	if _, secret := c.File(); !secret {
		t.Error("the file is not said to have a secret")
	}
	c.Hooks[0].Secret = ""
	if _, secret := c.File(); secret {
		t.Error("a secret of the environment is taken for one of the file")
	}
	c.Hooks[1].SecretFile = filepath.Join(dir, "absent")
	if _, err := c.Sources(); err == nil || !strings.Contains(err.Error(), "hooks.c.secret_file cannot be read") {
		t.Errorf("an absent file: %v", err)
	}
}

// What cannot be is refused with its place, and no secret is shown.
func TestHooksRefused(t *testing.T) {
	for text, want := range map[string]string{
		"m: {provider: sendgird}": `hooks.m.provider is not right: unknown provider "sendgird"; did you mean sendgrid?`,
		"m: {}":                   "hooks.m.provider is not right",
		"M: {provider: ses}":      "hooks.M is no name of a hook",
		"m: {provider: sendgrid, secret: hunter2hunter2hunter2}":                  "hooks.m.secret is no public key",
		"m: {provider: resend, secret: whsec_hunter2}":                            "hooks.m.secret is no signing secret",
		"m: {provider: postmark, secret: hunter2}":                                "hooks.m.secret has 7 characters, want at least 16",
		"m: {provider: postmark, secret: hunter2hunter2hunter2, secret_file: /x}": "hooks.m.secret_file is given, and secret too",
		"m: {provider: postmark, topics: [x]}":                                    "hooks.m.topics are given for postmark",
		"m: {provider: ses, topics: [x]}":                                         "hooks.m.topics has \"x\"",
		"m: {provider: mandrill, url: 'https://x/y?key=z'}":                       "hooks.m.url has a query",
		"{a-b: {provider: ses}, a_b: {provider: ses}}":                            "hooks.a_b has the variables of a-b",
	} {
		if !strings.HasPrefix(text, "{") {
			text = "{" + text + "}"
		}
		_, err := load(t, "hooks: "+text+"\n", nil, nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
