package api

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"

	"sluice/web"
)

// The dashboard is one page with a script, which asks for the rest by the calls that
// everybody may make. So the files are open, and what they show is not.

// dashboardPages are the paths at which the page is served; its script knows which of its
// views each is.
var dashboardPages = []string{
	"/{$}", "/setup", "/sign-in", "/people", "/people/{id}", "/messages", "/messages/{id}", "/mailbox", "/mailbox/{number}", "/doubts", "/reactions", "/suppressions",
	"/dead-letters", "/series", "/imports", "/imports/{id}", "/journeys", "/journeys/{id}", "/settings", "/settings/{part}", "/account", "/design",
}

// nonceMark stands in the page for what allows one style: that of the library that keeps
// the page behind a dialog from being scrolled.
const nonceMark = "SLUICE_NONCE"

// asset is a built file.
type asset struct {
	kind           string
	plain, gzipped []byte
}

// assetKinds are the kinds of built files. What the machine knows of such names may be
// another: with nosniff a browser runs no script that is called text/plain.
var assetKinds = map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}

// assets are the built files by their paths, packed when they are first asked for.
var assets = sync.OnceValues(func() (map[string]asset, error) {
	all := make(map[string]asset)
	err := fs.WalkDir(web.Dist, "dist", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := web.Dist.ReadFile(p)
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err == nil {
			_, err = z.Write(text)
		}
		if err = errors.Join(err, z.Close()); err != nil {
			return err
		}
		all[strings.TrimPrefix(p, "dist")] = asset{assetKinds[path.Ext(p)], text, packed.Bytes()}
		return nil
	})
	return all, err
})

// dashboard adds the page and its files to the paths that are answered.
func (s *Server) dashboard(mux *http.ServeMux) {
	only := func(answer http.HandlerFunc) http.Handler {
		h := s.only([]string{http.MethodGet, http.MethodHead}, map[string]http.HandlerFunc{http.MethodGet: answer, http.MethodHead: answer})
		return http.MaxBytesHandler(h, maxBodyBytes)
	}
	for _, p := range dashboardPages {
		mux.Handle(p, only(s.dashboardPage))
	}
	mux.Handle("/assets/{file}", only(s.dashboardAsset))
}

// wantsPage reports whether a browser asks for a page to be shown, and not for a part of
// one, for an answer of the API, or where a link in a mail leads.
func wantsPage(r *http.Request) bool {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	apart := slices.ContainsFunc([]string{"/v1/", "/assets/", "/t/"}, func(begin string) bool { return strings.HasPrefix(r.URL.Path, begin) })
	return reads && !apart && strings.Contains(r.Header.Get("Accept"), "text/html")
}

func (s *Server) dashboardPage(w http.ResponseWriter, r *http.Request) {
	s.answerPage(w, r, http.StatusOK)
}

// answerPage answers with the page, whose policy allows what comes from here alone.
func (s *Server) answerPage(w http.ResponseWriter, r *http.Request, status int) {
	all, err := assets()
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	nonce := rand.Text()
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'self'; style-src 'self' 'nonce-"+nonce+"'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Robots-Tag", "noindex")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	w.WriteHeader(status)
	s.write(w, bytes.ReplaceAll(all["/index.html"].plain, []byte(nonceMark), []byte(nonce)))
}

// dashboardAsset answers with a file whose name changes with its contents.
func (s *Server) dashboardAsset(w http.ResponseWriter, r *http.Request) {
	all, err := assets()
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	a, ok := all[r.URL.Path]
	if !ok {
		s.unknown(w, r)
		return
	}
	h, text := w.Header(), a.plain
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		text = a.gzipped
	}
	h.Set("Content-Length", strconv.Itoa(len(text)))
	s.write(w, text)
}
