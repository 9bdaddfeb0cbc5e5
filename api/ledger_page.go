package api

import (
	_ "embed"
	"net/http"

	"sluice"
	"sluice/lib/key"
)

// The page of the ledger shows what /v1/ledger and /v1/ledger/doubts answer. It
// has no script and changes nothing. Another page may make a browser ask for
// it, and the browser sends the key that it was given.
var (
	//go:embed ledger.html
	ledgerHTML string

	ledgerPage = newPage("ledger", ledgerHTML)
)

// ledgerView is what the page shows.
type ledgerView struct {
	*Ledger
	Doubts []doubtShown
	Next   string
	After  string
}

// pageReader says who reads a page: a browser asks for a name, which may be any,
// and a password, which is a key (RFC 7617).
func (s *Server) pageReader(w http.ResponseWriter, r *http.Request, p key.Permission) error {
	_, password, ok := r.BasicAuth()
	if !ok {
		_, err := s.allowed(w, r, p)
		return err
	}
	asBearer := r.Clone(r.Context())
	asBearer.Header.Set("Authorization", "Bearer "+password)
	_, err := s.allowed(w, asBearer, p)
	return err
}

// ledgerPage is GET /ledger.
func (s *Server) ledgerPage(w http.ResponseWriter, r *http.Request) {
	view, err := s.viewLedger(w, r)
	if err != nil {
		if e, ok := err.(*sluice.Error); ok && e.Code == sluice.CodeUnauthorized {
			w.Header().Set("WWW-Authenticate", `Basic realm="any name; a key with ledger:read as the password", charset="UTF-8"`)
			s.writeJSON(w, http.StatusUnauthorized, errorBody{Error: detail(e, idOf(w))})
			return
		}
		s.writeError(w, r, s.storeError(w, err, ""))
		return
	}
	s.makePage(w, http.StatusOK, ledgerPage, noForms, view)
}

func (s *Server) viewLedger(w http.ResponseWriter, r *http.Request) (*ledgerView, error) {
	if err := s.pageReader(w, r, key.LedgerRead); err != nil {
		return nil, err
	}
	values, err := readQuery(r, []string{"after"})
	if err != nil {
		return nil, err
	}
	services := s.program.Services()
	if services == NotRunning {
		return nil, errNotRunning
	}
	view := &ledgerView{After: values.Get("after")}
	if view.Ledger, err = s.lookAtLedger(r.Context(), services.Ledger); err != nil {
		return nil, err
	}
	list, err := listDoubts(r.Context(), services.Ledger, values)
	view.Doubts, view.Next = list.Rows, list.Next
	return view, err
}
