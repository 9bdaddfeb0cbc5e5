package api

import (
	"context"

	"sluice"
	"sluice/lib/key"
)

// What other surfaces ask about keys, so that a key is looked up once, is
// revoked everywhere at once, and has one rate.

// Identify returns whose key a text is, or an *sluice.Error: unauthorized, or
// unavailable while keys cannot be checked. It asks the database every few
// seconds for a key, so callers ask it again and again instead of remembering
// its answer.
func (s *Server) Identify(ctx context.Context, text string) (key.Identity, error) {
	return s.authority.identifyKey(ctx, text)
}

// Admit returns nil, or an *sluice.Error (too_fast) if a key has used up what it
// may send.
func (s *Server) Admit(who key.Identity) error {
	if err := s.rates.admit(who); err != nil {
		return &sluice.Error{Code: sluice.CodeTooFast, Index: -1, Message: err.Error()}
	}
	return nil
}

// Spend takes items out of what a key may send.
func (s *Server) Spend(who key.Identity, items int) { s.rates.spend(who, items) }
