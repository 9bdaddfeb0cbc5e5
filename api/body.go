package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"sluice"
	"sluice/lib/connlimit"
)

// Bounds of a body.
const (
	// maxEventsBytes bounds the bodies of /v1/events and of all calls that name no other
	// bound, as they come and unpacked.
	maxEventsBytes = 16 << 20

	// maxRatio is how much larger than it came a body may become, beyond
	// freeUnpackBytes: real events pack by 5 to 50, a bomb by 1,000.
	maxRatio        = 256
	freeUnpackBytes = 1 << 20

	// maxWindowBytes bounds what a zstd frame makes its reader keep (RFC 8878,
	// 3.1.1.1.2 recommends to support 8 MiB).
	maxWindowBytes = 8 << 20

	// maxHeldBytes bounds the bodies of all requests together. Memory is taken
	// as bytes arrive, so who promises much and sends nothing holds nothing.
	maxHeldBytes = 256 << 20

	// maxHeldOfSender bounds those of one key or account: one whose bodies stall, or come
	// in plenty, leaves half of the memory to the others.
	maxHeldOfSender = maxHeldBytes / 2

	// maxHeldOfStranger bounds those of one network of strangers: one whose bodies stall
	// leaves the rest to the others. It is as much as the longest body takes.
	maxHeldOfStranger = maxEventsBytes

	// maxParallelUnpacks bounds the readers of packed bodies and their windows.
	maxParallelUnpacks = 8

	// strangerWithin is how long a body whose sender is not known yet may bring nothing.
	strangerWithin = 5 * time.Second

	firstBufferBytes = 4 << 10
	keptBufferBytes  = 1 << 20 // larger buffers are not kept for the next body
)

// memory is what bodies are counted in: a budget, or a sender's share of one.
type memory interface {
	Take(n int) bool // reports whether n bytes were there
	Give(n int)
}

// both is memory that is counted in two places.
type both struct{ one, other memory }

func (b both) Take(n int) bool {
	if !b.one.Take(n) {
		return false
	}
	if !b.other.Take(n) {
		b.one.Give(n)
		return false
	}
	return true
}

func (b both) Give(n int) {
	b.one.Give(n)
	b.other.Give(n)
}

// buffer is the memory of one body, counted in a budget.
type buffer struct {
	bytes  []byte
	budget memory
	most   int // bytes that the body may have
	whole  int // bytes of the whole body, if its sender has said so: it grows no further
}

var buffers = sync.Pool{New: func() any { return &buffer{bytes: make([]byte, 0, firstBufferBytes)} }}

// errBusy: the memory for bodies is in use.
var errBusy = refusal(sluice.CodeUnavailable, "too much is being taken in at the moment; nothing of this request was, send it again")

// newBuffer returns an empty buffer for a body of at most so many bytes; the caller
// releases it.
func newBuffer(b memory, most int) (*buffer, error) {
	buf := buffers.Get().(*buffer)
	if !b.Take(cap(buf.bytes)) {
		buffers.Put(buf)
		return nil, errBusy
	}
	buf.budget, buf.most, buf.whole = b, most, 0
	return buf, nil
}

func (b *buffer) release() {
	if b == nil {
		return
	}
	b.budget.Give(cap(b.bytes))
	b.bytes = b.bytes[:0]
	if cap(b.bytes) <= keptBufferBytes {
		buffers.Put(b)
	}
}

// text is what the buffer holds, "" of none. It shares its memory: nothing keeps it
// after release, and nothing changes it.
func (b *buffer) text() string {
	if b == nil {
		return ""
	}
	return unsafe.String(unsafe.SliceData(b.bytes), len(b.bytes))
}

// fill reads to the end, asking `allow` about the size after each step; nil: any size up
// to the buffer's bound is allowed. It reads one byte beyond that bound at most.
func (b *buffer) fill(r io.Reader, allow func(size int) error) error {
	for {
		if len(b.bytes) >= b.most {
			return b.ends(r)
		}
		if len(b.bytes) == cap(b.bytes) {
			if err := b.grow(); err != nil {
				return err
			}
		}
		n, err := r.Read(b.bytes[len(b.bytes):min(cap(b.bytes), b.most)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		if allow != nil {
			if refused := allow(len(b.bytes)); refused != nil {
				return refused
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// ends returns nil if there is no more to read: a body that is as long as one may be needs
// no larger buffer to find that out.
func (b *buffer) ends(r io.Reader) error {
	for {
		var more [1]byte
		n, err := r.Read(more[:])
		if n > 0 {
			return errBeyond(b.most)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// grow doubles the memory, or makes it as large as the body. While it copies it has the
// old memory as well, which is counted no more: a body may need all that is left.
func (b *buffer) grow() error {
	size, most := 2*cap(b.bytes), b.most
	if b.whole > cap(b.bytes) {
		most = b.whole
	}
	if most > cap(b.bytes) {
		size = min(size, most)
	}
	if !b.budget.Take(size - cap(b.bytes)) {
		return errBusy
	}
	b.bytes = append(make([]byte, 0, size), b.bytes...)
	return nil
}

func errBodyTooLarge() error {
	return refusal(sluice.CodeTooLarge, "the body is larger than %d bytes; send what it has in several requests", maxEventsBytes)
}

func errLargerThan(maxBytes int) error {
	return refusal(sluice.CodeTooLarge, "the body is larger than %d bytes", maxBytes)
}

// errBeyond is the refusal of a body that is larger than the bound of its call.
func errBeyond(most int) error {
	if most == maxEventsBytes {
		return errBodyTooLarge()
	}
	return errLargerThan(most)
}

// readBody reads a body of at most so many bytes, as it comes. A longer one is refused
// before its rest takes memory. How long it may take is the server's ReadTimeout; the
// caller releases the buffer, also after an error.
func readBody(r *http.Request, b memory, most int) (*buffer, error) {
	if r.ContentLength > int64(most) {
		return nil, errBeyond(most)
	}
	buf, err := newBuffer(b, most)
	if err != nil {
		return nil, err
	}
	buf.whole = int(max(0, r.ContentLength))
	err = buf.fill(r.Body, nil)
	if err == nil {
		return buf, nil
	}
	if _, ok := errors.AsType[*sluice.Error](err); ok {
		return buf, err
	}
	if most, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return buf, errLargerThan(int(most.Limit))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return buf, &statusError{http.StatusRequestTimeout, refusal(sluice.CodeInvalid, "the body did not arrive in time; nothing of it was taken in")}
	}
	return buf, refusal(sluice.CodeInvalid, "the body cannot be read to its end; nothing of it was taken in")
}

// arriving is a body of a stranger on its way. Each read brings something within some
// time, or fails, beside the time that the whole body may take: so memory that others
// need is not held by who sends the half of a body and waits.
type arriving struct {
	io.ReadCloser
	control *http.ResponseController
	within  time.Duration
	end     time.Time
}

// stranger has the body of a request come on as arriving says, and returns the network that
// it comes from: of IPv6 a /48, of which one person may have all.
func (s *Server) stranger(w http.ResponseWriter, r *http.Request) (network string) {
	r.Body = &arriving{r.Body, http.NewResponseController(w), s.strangerWithin, time.Now().Add(s.http.ReadTimeout)}
	return connlimit.Network(connlimit.Sender(r, s.proxies), 48)
}

func (a *arriving) Read(b []byte) (int, error) {
	by := time.Now().Add(a.within)
	if a.end.Before(by) {
		by = a.end
	}
	_ = a.control.SetReadDeadline(by) // a test's has none
	n, err := a.ReadCloser.Read(b)
	if err == io.EOF {
		_ = a.control.SetReadDeadline(time.Time{}) // what is read now is the next request
	}
	return n, err
}

// unpacker unpacks bodies that are wholly there, so that a slow client holds
// none of the few readers.
type unpacker struct {
	slots chan struct{}
	gzips sync.Pool
	zstds sync.Pool
}

func newUnpacker() *unpacker { return &unpacker{slots: make(chan struct{}, parallelUnpacks())} }

// parallelUnpacks leaves half of the machine to those who send no bombs.
func parallelUnpacks() int { return min(max(1, runtime.GOMAXPROCS(0)/2), maxParallelUnpacks) }

// unpack undoes a Content-Encoding. It takes over packed, and returns it if
// there is nothing to do; the caller releases what is returned. What is unpacked is
// counted where packed is, and may be as long as that might.
func (u *unpacker) unpack(ctx context.Context, packed *buffer, encoding string) (*buffer, error) {
	var open func(io.Reader) (io.Reader, func(), error)
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return packed, nil
	case "gzip", "x-gzip":
		open = u.gzip
	case "zstd":
		open = u.zstd
	default:
		packed.release()
		return nil, &statusError{http.StatusUnsupportedMediaType, refusal(sluice.CodeInvalid, "Content-Encoding is not understood; send gzip, zstd or none")}
	}
	defer packed.release()
	select {
	case u.slots <- struct{}{}:
		defer func() { <-u.slots }()
	case <-ctx.Done():
		return nil, errBusy
	}
	reader, done, err := open(bytes.NewReader(packed.bytes))
	if err != nil {
		return nil, refusal(sluice.CodeInvalid, "the body cannot be unpacked: %v", err)
	}
	defer done()
	buf, err := newBuffer(packed.budget, packed.most)
	if err != nil {
		return nil, err
	}
	err = buf.fill(reader, func(size int) error {
		if size > freeUnpackBytes && size > maxRatio*len(packed.bytes) {
			return refusal(sluice.CodeTooLarge, "the body unpacks to more than %d times its size", maxRatio)
		}
		return nil
	})
	if err == nil {
		return buf, nil
	}
	buf.release()
	if _, ok := errors.AsType[*sluice.Error](err); ok {
		return nil, err
	}
	if errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		return nil, refusal(sluice.CodeTooLarge, "the body needs a window of more than %d bytes to unpack", maxWindowBytes)
	}
	return nil, refusal(sluice.CodeInvalid, "the body cannot be unpacked: %v", err)
}

func (u *unpacker) gzip(r io.Reader) (io.Reader, func(), error) {
	z, ok := u.gzips.Get().(*gzip.Reader)
	if !ok {
		z = new(gzip.Reader)
	}
	if err := z.Reset(r); err != nil {
		return nil, nil, err
	}
	return z, func() { u.gzips.Put(z) }, nil
}

func (u *unpacker) zstd(r io.Reader) (io.Reader, func(), error) {
	z, ok := u.zstds.Get().(*zstd.Decoder)
	if !ok {
		var err error
		// One goroutine, the caller's: there is nothing to close.
		z, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindowBytes))
		if err != nil {
			return nil, nil, err
		}
	}
	if err := z.Reset(r); err != nil {
		return nil, nil, err
	}
	return z, func() {
		_ = z.Reset(nil) // lets go of the body
		u.zstds.Put(z)
	}, nil
}
