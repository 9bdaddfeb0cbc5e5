package api

import (
	"bytes"
	"context"
	"net/http"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"time"

	"sluice"
	"sluice/lib/key"
)

const pprofPath = "/debug/pprof/{profile}"

// Bounds of profiles. The seconds stay well below answerWriteTimeout. A trace
// grows with every event of the scheduler, some 10 MB a second under load.
const (
	maxProfileSeconds = 30
	maxTraceSeconds   = 5
)

// pprof is GET /debug/pprof/{profile}, in the form that `go tool pprof` and
// `go tool trace` read. Profiles name functions and, with cpu and trace, take
// time off the program, so they need the permission admin, also on loopback.
// net/http/pprof is not used: it enters itself in http.DefaultServeMux, hands
// out the command line, and knows no bound. A profile ends early when its
// caller goes or the server stops, which it must not hold up.
func (s *Server) pprof(w http.ResponseWriter, r *http.Request) {
	if _, err := s.allowed(w, r, key.Admin); err != nil {
		s.writeError(w, r, err)
		return
	}
	profile, err := s.readProfile(r)
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+r.PathValue("profile")+`"`)
	s.write(w, profile)
}

func (s *Server) readProfile(r *http.Request) ([]byte, error) {
	var b bytes.Buffer
	switch name := r.PathValue("profile"); name {
	case "allocs", "goroutine", "heap", "threadcreate":
		if err := pprof.Lookup(name).WriteTo(&b, 0); err != nil {
			return nil, err
		}
	case "profile":
		seconds, err := readSeconds(r, 10, maxProfileSeconds)
		if err != nil {
			return nil, err
		}
		if err := pprof.StartCPUProfile(&b); err != nil {
			return nil, refusal(sluice.CodeUnavailable, "a profile is being taken already, try again later")
		}
		s.wait(r.Context(), seconds)
		pprof.StopCPUProfile()
	case "trace":
		seconds, err := readSeconds(r, 1, maxTraceSeconds)
		if err != nil {
			return nil, err
		}
		if err := trace.Start(&b); err != nil {
			return nil, refusal(sluice.CodeUnavailable, "a trace is being taken already, try again later")
		}
		s.wait(r.Context(), seconds)
		trace.Stop()
	default:
		return nil, refusal(sluice.CodeNotFound, "there is no profile %q; there are allocs, goroutine, heap, profile (CPU), threadcreate, trace", name)
	}
	return b.Bytes(), nil
}

func readSeconds(r *http.Request, preset, most int) (time.Duration, error) {
	n := preset
	if text := r.URL.Query().Get("seconds"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > most {
			return 0, refusal(sluice.CodeInvalid, "seconds has to be a number from 1 to %d", most)
		}
	}
	return time.Duration(n) * time.Second, nil
}

// wait waits for so long, until the caller has gone, or until the server stops.
func (s *Server) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-s.stopping:
	}
}
