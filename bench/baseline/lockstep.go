package baseline

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/smtp"
	"time"
)

// Lockstep sends mails as the social network did. It uses one thread, one
// connection, and a wait for each answer (MAIL, RCPT, DATA, the end of the
// content). It returns how many were taken until the context ended.
func Lockstep(ctx context.Context, address, from, to string, message []byte) (sent int, err error) {
	conn, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return 0, fmt.Errorf("connect to the relay: %w", err)
	}
	defer func() { _ = conn.Close() }()
	c, err := smtp.NewClient(conn, "localhost")
	if err != nil {
		return 0, fmt.Errorf("greet the relay: %w", err)
	}
	for ; ctx.Err() == nil; sent++ {
		if err := c.Mail(from); err != nil {
			return sent, err
		}
		if err := c.Rcpt(to); err != nil {
			return sent, err
		}
		w, err := c.Data()
		if err != nil {
			return sent, err
		}
		if _, err := w.Write(message); err != nil {
			return sent, err
		}
		if err := w.Close(); err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// LockstepAPI sends mails by a provider's API: one thread, one connection, a
// request a mail.
func LockstepAPI(ctx context.Context, url, from, to string, message []byte) (sent int, err error) {
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	for ; ctx.Err() == nil; sent++ {
		body, err := json.Marshal(map[string]any{
			"FromEmailAddress": from, "Destination": map[string]any{"ToAddresses": []string{to}},
			"Content": map[string]any{"Raw": map[string]any{"Data": base64.StdEncoding.EncodeToString(message)}},
		})
		if err != nil {
			return sent, err
		}
		answer, err := client.Post(url+"/v2/email/outbound-emails", "application/json", bytes.NewReader(body))
		if err != nil {
			return sent, err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK {
			return sent, fmt.Errorf("the API answered %s: %v", answer.Status, err)
		}
	}
	return sent, nil
}
