package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sluice"
	"sluice/lib/key"
	"sluice/ops/account"
	"sluice/store/sqlstore"
)

var accountLong = fmt.Sprintf(`
Accounts of the dashboard, which a running program serves at /. A program that starts
without any prints a link that makes the first one: it holds for %d minutes, once.

    sluice account add ann@example.com --role editor
                                     print a new password, and nothing else
    sluice account reset NAME        the same for an account that there is; signs it out
    sluice account list              all of them
    sluice account remove NAME       with its sessions

A change is in force everywhere within 5 seconds. The roles:
  viewer   sees all but accounts and keys, and changes nothing
  editor   also changes content, people, suppressions and mail
  admin    also accounts and keys, and reads the audit log
`, account.SetupMinutes)

var accountFlags = []flagSpec{
	{name: "role", value: "ROLE", preset: key.Viewer, help: "add: " + strings.Join(key.Roles, ", "), check: accountRole},
	{name: "json", help: "list: one JSON object a line"},
}

func accountRole(s string) error {
	if key.PermissionsOf(s) == nil {
		return fmt.Errorf("want %s", strings.Join(key.Roles, ", "))
	}
	return nil
}

func runAccount(ctx context.Context, c *call) error {
	what, rest, err := c.word("add", "reset", "list", "remove")
	switch {
	case err != nil:
		return err
	case what == "list" && len(rest) > 0:
		return usagef("account list: takes no arguments, but %q is one", rest[0])
	case what != "list" && len(rest) != 1:
		return usagef("account %s: want one NAME; `sluice account list` shows them", what)
	}
	db, err := c.openKeys(ctx, what == "add")
	if err != nil {
		return err
	}
	accounts := account.New(db, c.clock(ctx))
	switch what {
	case "list":
		return c.accountList(ctx, db)
	case "add":
		password := account.NewPassword()
		if _, err := accounts.Add(ctx, rest[0], c.given.text("role"), password); err != nil {
			return err
		}
		return c.showPassword(password)
	}
	name, err := account.CheckName(rest[0])
	if err != nil {
		return usageError{err}
	}
	a, err := db.Account(ctx, name)
	if e, ok := errors.AsType[*sluice.Error](err); ok && e.Code == sluice.CodeNotFound {
		return fmt.Errorf("account %s: there is no %s; `sluice account list` shows all", what, name)
	}
	if err != nil {
		return err
	}
	if what == "remove" {
		// Also the last admin: who has the database has all of it.
		if err := db.DropAccount(ctx, a.ID, ""); err != nil {
			return err
		}
		c.print("account %s is removed; no process takes its sessions in 5 seconds from now", a.Name)
		return nil
	}
	password := account.NewPassword()
	if err := accounts.Reset(ctx, a.ID, password); err != nil {
		return err
	}
	return c.showPassword(password)
}

// showPassword prints a password, which is kept nowhere.
func (c *call) showPassword(password string) error {
	fmt.Fprintln(c.main.Stderr, "this password is not shown again:")
	c.print("%s", password)
	return nil
}

// shownAccount is an account as --json shows it.
type shownAccount struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Role    string `json:"role"`
	Created string `json:"created"`
}

func (c *call) accountList(ctx context.Context, db *sqlstore.Store) error {
	all, err := db.Accounts(ctx)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		fmt.Fprintln(c.main.Stderr, "no accounts; `sluice account add` makes one")
	}
	for _, a := range all {
		s := shownAccount{a.ID, a.Name, a.Role, keyTime(a.CreatedMillis)}
		if err := c.row(s, "%s  %-6s  %s", s.Created, s.Role, safeText(s.Name)); err != nil {
			return err
		}
	}
	return nil
}
