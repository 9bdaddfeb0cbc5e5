package engine

// SMTPAddress returns where mail is taken in by SMTP.
func (e *Engine) SMTPAddress() string { return e.smtp.Address() }

// OnFetchEnd has f called when a stop has the followers read nothing more.
func (e *Engine) OnFetchEnd(f func()) {
	c, _ := e.current()
	stop := c.stopFetch
	c.stopFetch = func() { f(); stop() }
}
