package main

import (
	"sluice"
	"sluice/api"
)

// Sends returns where it is known what became of messages, nil while the program
// does not run.
func (p *Program) Sends() sluice.SendStore {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.engine == nil {
		return nil
	}
	return p.engine.store
}

// Canceller returns what stops messages, nil while the program does not run.
func (p *Program) Canceller() api.Canceller {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.engine == nil {
		return nil
	}
	return p.engine.sending.canceller
}

// Ledger returns what compares the sums of sends with their rows, nil while the
// program does not run.
func (p *Program) Ledger() sluice.LedgerStore {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.engine == nil {
		return nil
	}
	return p.engine.store
}

// Decider returns what takes decisions about mails in doubt, nil while the
// program does not run.
func (p *Program) Decider() api.Decider {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.engine == nil {
		return nil
	}
	return p.engine.sending.decider
}

// Operator returns what stops mail and purges it, nil while the program does not
// run.
func (p *Program) Operator() api.Operator {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.engine == nil {
		return nil
	}
	return p.engine.sending.operator
}

// Mailboxes returns the built-in mailboxes, nil while the program does not run, or
// does not send.
func (p *Program) Mailboxes() api.Mailboxes {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.engine == nil || p.engine.sending.box == nil {
		return nil
	}
	return p.engine.sending.box
}
