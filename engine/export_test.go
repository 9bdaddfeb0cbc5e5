package engine

import "time"

// Moved returns since when mail goes to the partition of the person.
func (e *Engine) Moved() time.Time {
	c, _ := e.current()
	return c.moved
}

// SMTPAddress returns where mail is taken in by SMTP.
func (e *Engine) SMTPAddress() string { return e.smtp.Address() }

// OnFetchEnd has f called when a stop has the followers read nothing more.
func (e *Engine) OnFetchEnd(f func()) {
	c, _ := e.current()
	stop := c.stopFetch
	c.stopFetch = func() { f(); stop() }
}

// LandingAddress returns where the listener for opens and clicks is; empty: there is
// none.
func (e *Engine) LandingAddress() string {
	if s := e.landingServer(); s != nil {
		return s.Address()
	}
	return ""
}
