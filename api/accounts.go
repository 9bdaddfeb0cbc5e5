package api

import (
	"sluice"
	"sluice/lib/key"
	"sluice/store"
)

// Paths of accounts and keys.
const (
	accountsPath = "/v1/accounts"
	accountPath  = accountsPath + "/{id}"
	keysPath     = "/v1/keys"
	keyPath      = keysPath + "/{id}"
)

// accountShown is an account in an answer.
type accountShown struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Role    string `json:"role"`
	Created string `json:"created"`
}

func shownAccount(a *store.Account) accountShown {
	return accountShown{a.ID, a.Name, a.Role, timeText(a.CreatedMillis)}
}

// listAccounts is GET /v1/accounts.
func (q *request) listAccounts() (any, error) {
	all, err := q.AccountStore.Accounts(q.Context())
	return listOf("accounts", all, shownAccount), err
}

// addAccount is POST /v1/accounts.
func (q *request) addAccount() (any, error) {
	var name, role, password string
	q.says(sentRefused) // it may have a password
	if _, err := q.object(maxSignInBytes, field{"name", &name}, field{"role", &role}, field{"password", &password}); err != nil {
		return nil, err
	}
	q.says("name " + name + ", role " + role)
	a, err := q.Accounts.Add(q.Context(), name, role, password)
	if err != nil {
		return nil, err
	}
	q.status = 201
	shown := shownAccount(&a)
	q.became(shown)
	return shown, nil
}

// changeAccount is PUT /v1/accounts/{id}.
func (q *request) changeAccount() (any, error) {
	var role, password string
	q.says(sentRefused) // it may have a password
	given, err := q.object(maxSignInBytes, field{"role", &role}, field{"password", &password})
	if err != nil {
		return nil, err
	}
	if len(given) == 0 {
		return nil, refusal(sluice.CodeInvalid, "want role, password, or both")
	}
	what := ""
	if role != "" {
		what = "role " + role
	}
	if password != "" {
		what += " a new password"
	}
	q.says(what)
	return nil, q.Accounts.Change(q.Context(), q.PathValue("id"), role, password)
}

// removeAccount is DELETE /v1/accounts/{id}.
func (q *request) removeAccount() (any, error) {
	return nil, q.Accounts.Remove(q.Context(), q.PathValue("id"))
}

// endSessions is DELETE /v1/accounts/{id}/sessions.
func (q *request) endSessions() (any, error) {
	return nil, q.Accounts.EndSessions(q.Context(), q.PathValue("id"))
}

// keyShown is a key in an answer; Text is there once, when it is made.
type keyShown struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Permissions []string `json:"permissions"`
	Created     string   `json:"created"`
	Revoked     string   `json:"revoked,omitempty"`
	Text        string   `json:"key,omitempty"`
}

func shownKey(k *store.APIKey) keyShown {
	return keyShown{k.ID, k.Name, append([]string{}, k.Permissions...), timeText(k.CreatedMillis), timeText(k.RevokedMillis), ""}
}

// listKeys is GET /v1/keys.
func (q *request) listKeys() (any, error) {
	all, err := q.Keys.APIKeys(q.Context())
	return listOf("keys", all, shownKey), err
}

// addKey is POST /v1/keys.
func (q *request) addKey() (any, error) {
	var name, words string
	if _, err := q.object(maxSignInBytes, field{"name", &name}, field{"permissions", &words}); err != nil {
		return nil, err
	}
	permissions, err := key.ParsePermissions(words)
	if err != nil {
		return nil, refusal(sluice.CodeInvalid, "permissions: %s", err)
	}
	if len(name) > key.MaxNameBytes || hasControl(name) {
		return nil, refusal(sluice.CodeInvalid, "name: want at most %d bytes without control characters", key.MaxNameBytes)
	}
	id, text := key.New()
	hash := key.HashOf(text)
	k := store.APIKey{ID: id, Name: name, Hash: hash[:], CreatedMillis: q.s.clock.Now().UnixMilli()}
	for _, p := range permissions {
		k.Permissions = append(k.Permissions, string(p))
	}
	if err := q.Keys.AddKey(q.Context(), k); err != nil {
		return nil, err
	}
	q.status = 201
	shown := shownKey(&k)
	q.became(shown) // a copy, which does not get the key
	shown.Text = text
	return shown, nil
}

// revokeKey is DELETE /v1/keys/{id}.
func (q *request) revokeKey() (any, error) {
	id := q.PathValue("id")
	if !key.IsID(id) {
		return nil, refusal(sluice.CodeNotFound, "there is no key %.32q", id)
	}
	return nil, q.Keys.RevokeKey(q.Context(), id)
}
