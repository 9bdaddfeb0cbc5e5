package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"sluice/track/hook"
)

// Hook is an account at a mail provider that may post what becomes of mail.
type Hook struct {
	Name               string   // in the path of its requests: the key of the mapping
	Provider           string   `yaml:"provider" doc:"ses, sendgrid, mailgun, postmark, sparkpost, netcore, resend, brevo, mailjet or mandrill." sample:"ses"`
	Secret             Secret   `yaml:"secret" doc:"What the provider signs with, or tells. sendgrid: the public key. mailgun: the webhook signing key. resend: the signing secret, whsec_... mandrill: the webhook's key. Others, and ses with raw delivery: USER:PASSWORD of basic authentication, or a text of your own, which is told as a bearer token or in the URL as ?key=TEXT; at least 16 characters. Never printed. Variable: SLUICE_HOOKS_NAME_SECRET, with the entry's name in capitals, _ for -." sample:"USER:PASSWORD_OF_16_OR_MORE"`
	SecretPrevious     Secret   `yaml:"secret_previous" doc:"A second one that holds as well, while one is replaced. Never printed. Variable: SLUICE_HOOKS_NAME_SECRET_PREVIOUS."`
	SecretFile         string   `yaml:"secret_file" doc:"A file with the secret, instead of secret. Read at the start."`
	SecretPreviousFile string   `yaml:"secret_previous_file" doc:"A file with the second one."`
	Topics             []string `yaml:"topics" doc:"ses: the ARNs of the SNS topics that may post, 20 at most. Their subscriptions are confirmed without asking. No other is." sample:"[arn:aws:sns:eu-west-1:123456789012:ses-events]"`
	URL                string   `yaml:"url" doc:"mandrill: the address as it was entered there, without a query, which it signs. Default: public_url and /hooks/PROVIDER/NAME." sample:"https://mail.example.com/hooks/mandrill/main"`
	Consent            bool     `yaml:"consent" doc:"false: complaints stop marketing mail alone, and opt-ins change nothing. Else both are believed, as of a key with consent:write."`
}

// Limits of hooks.
const (
	MaxHookTopics = 20

	maxHookSecretBytes = 4096
)

func newHook(name string) Hook { return Hook{Name: name, Consent: true} }

// variable is the environment variable of an entry's secret.
func (h *Hook) variable(key string) string {
	return "SLUICE_HOOKS_" + strings.ToUpper(strings.ReplaceAll(h.Name, "-", "_")) + "_" + strings.ToUpper(key)
}

// secretAt returns the field of the key of a secret.
func (h *Hook) secretAt(key string) *Secret {
	if key == "secret" {
		return &h.Secret
	}
	return &h.SecretPrevious
}

// hookSecrets are the keys of secrets, which may be in the environment.
var hookSecrets = []string{"secret", "secret_previous"}

// hookVariable takes a variable that is the secret of a hook; false: it is none.
func (c *Config) hookVariable(name, value string) bool {
	for i := range c.Hooks {
		for _, key := range hookSecrets {
			if h := &c.Hooks[i]; h.variable(key) == name {
				*h.secretAt(key) = Secret(value)
				c.origins[joinPath(joinPath("hooks", h.Name), key)] = name
				return true
			}
		}
	}
	return false
}

// Sources returns who may post, with the secrets that files have.
func (c *Config) Sources() ([]hook.Source, error) {
	var all []hook.Source
	for i := range c.Hooks {
		h := &c.Hooks[i]
		provider, err := hook.Find(h.Provider)
		if err != nil {
			return nil, c.wrongIn(joinPath("hooks", h.Name), "provider", err)
		}
		s := hook.Source{Name: h.Name, Provider: provider, Topics: h.Topics, URL: h.URL, Consent: h.Consent}
		for _, one := range []struct {
			key, file string
			secret    Secret
		}{{"secret", h.SecretFile, h.Secret}, {"secret_previous", h.SecretPreviousFile, h.SecretPrevious}} {
			text := one.secret.Reveal()
			if one.file != "" {
				if text, err = readSecret(one.file); err == nil {
					err = provider.CheckSecret(text)
				}
				if err != nil {
					return nil, c.wrongIn(joinPath("hooks", h.Name), one.key+"_file", err)
				}
			}
			if text != "" {
				s.Secrets = append(s.Secrets, text)
			}
		}
		all = append(all, s)
	}
	return all, nil
}

// readSecret reads a file with a secret, without the white space around it.
func readSecret(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(file, maxHookSecretBytes+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("cannot be read: %w", err)
	case len(text) > maxHookSecretBytes:
		return "", fmt.Errorf("has more than %d bytes: is it the right file?", maxHookSecretBytes)
	}
	return strings.TrimSpace(string(text)), nil
}

// hooks checks who may post. An entry without a secret is allowed, and refuses all: the
// secret may come with the environment of another start. `sluice doctor` says so.
func (f *findings) hooks() {
	f.most("hooks", "entries", len(f.c.Hooks), hook.MaxSources)
	variables := make(map[string]string)
	for i := range f.c.Hooks {
		h := &f.c.Hooks[i]
		wrong := f.entry(joinPath("hooks", h.Name), h)
		if !formName.MatchString(h.Name) || len(h.Name) > 64 {
			wrong("", errors.New("is no name of a hook, want 1 to 64 of a-z, 0-9, _ and -"))
		}
		if other, taken := variables[h.variable("secret")]; taken {
			wrong("", fmt.Errorf("has the variables of %s: give it a name that differs in more than - and _", other))
		}
		variables[h.variable("secret")] = h.Name
		f.hook(h, wrong)
	}
}

func (f *findings) hook(h *Hook, wrong func(string, error)) {
	provider, err := hook.Find(h.Provider)
	if err != nil {
		wrong("provider", fmt.Errorf("is not right: %w", err))
		return
	}
	for _, one := range []struct{ key, file string }{{"secret", h.SecretFile}, {"secret_previous", h.SecretPreviousFile}} {
		text := h.secretAt(one.key).Reveal()
		if text != "" {
			wrong(one.key, provider.CheckSecret(text))
		}
		if text != "" && one.file != "" {
			wrong(one.key+"_file", fmt.Errorf("is given, and %s too; want one of them", one.key))
		}
	}
	if len(h.Topics) > 0 && provider.Name != "ses" {
		wrong("topics", fmt.Errorf("are given for %s; only ses posts by topics", provider.Name))
	}
	if n := len(h.Topics); n > MaxHookTopics {
		wrong("topics", fmt.Errorf("has %d entries, the most is %d", n, MaxHookTopics))
	}
	for _, topic := range h.Topics {
		if !hook.IsTopic(topic) {
			wrong("topics", fmt.Errorf("has %.100q, want the ARN of a topic: arn:aws:sns:eu-west-1:123456789012:NAME", topic))
		}
	}
	if h.URL != "" {
		err := checkWebURL(h.URL)
		if err == nil && strings.Contains(h.URL, "?") {
			err = errors.New("has a query; leave it out, that of each request counts")
		}
		wrong("url", err)
	}
}
