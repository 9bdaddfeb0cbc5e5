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
	"unsafe"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"sluice"
	"sluice/lib/connlimit"
)

// Bounds of a body.
const (
	// maxEventsBytes bounds the body of /v1/events, as it comes and unpacked.
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

	// maxParallelUnpacks bounds the readers of packed bodies and their windows.
	maxParallelUnpacks = 8

	firstBufferBytes = 4 << 10
	keptBufferBytes  = 1 << 20 // larger buffers are not kept for the next body
)

// buffer is the memory of one body, counted in a budget.
type buffer struct {
	bytes  []byte
	budget *connlimit.Budget
}

var buffers = sync.Pool{New: func() any { return &buffer{bytes: make([]byte, 0, firstBufferBytes)} }}

// errBusy: the memory for bodies is in use.
var errBusy = refusal(sluice.CodeUnavailable, "too much is being taken in at the moment; nothing of this request was, send it again")

// newBuffer returns an empty buffer; the caller releases it.
func newBuffer(b *connlimit.Budget) (*buffer, error) {
	buf := buffers.Get().(*buffer)
	if !b.Take(cap(buf.bytes)) {
		buffers.Put(buf)
		return nil, errBusy
	}
	buf.budget = b
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

// fill reads to the end, asking `allow` about the size after each step.
func (b *buffer) fill(r io.Reader, allow func(size int) error) error {
	for {
		if len(b.bytes) == cap(b.bytes) {
			if err := b.grow(); err != nil {
				return err
			}
		}
		n, err := r.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		if refused := allow(len(b.bytes)); refused != nil {
			return refused
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (b *buffer) grow() error {
	more := 2 * cap(b.bytes)
	if !b.budget.Take(more) {
		return errBusy
	}
	larger := append(make([]byte, 0, more), b.bytes...)
	b.budget.Give(cap(b.bytes))
	b.bytes = larger
	return nil
}

func errBodyTooLarge() error {
	return refusal(sluice.CodeTooLarge, "the body is larger than %d bytes; send its events in several requests", maxEventsBytes)
}

func errLargerThan(maxBytes int) error {
	return refusal(sluice.CodeTooLarge, "the body is larger than %d bytes", maxBytes)
}

func allowBody(size int) error {
	if size > maxEventsBytes {
		return errBodyTooLarge()
	}
	return nil
}

// readBody reads a body as it comes. How long it may take is the server's
// ReadTimeout; the caller releases the buffer, also after an error.
func readBody(r *http.Request, b *connlimit.Budget) (*buffer, error) {
	if r.ContentLength > maxEventsBytes {
		return nil, errBodyTooLarge()
	}
	buf, err := newBuffer(b)
	if err != nil {
		return nil, err
	}
	err = buf.fill(r.Body, allowBody)
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

// unpacker unpacks bodies that are wholly there, so that a slow client holds
// none of the few readers.
type unpacker struct {
	budget *connlimit.Budget
	slots  chan struct{}
	gzips  sync.Pool
	zstds  sync.Pool
}

func newUnpacker(b *connlimit.Budget) *unpacker {
	return &unpacker{budget: b, slots: make(chan struct{}, parallelUnpacks())}
}

// parallelUnpacks leaves half of the machine to those who send no bombs.
func parallelUnpacks() int { return min(max(1, runtime.GOMAXPROCS(0)/2), maxParallelUnpacks) }

// unpack undoes a Content-Encoding. It takes over packed, and returns it if
// there is nothing to do; the caller releases what is returned.
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
	buf, err := newBuffer(u.budget)
	if err != nil {
		return nil, err
	}
	err = buf.fill(reader, func(size int) error {
		if size > freeUnpackBytes && size > maxRatio*len(packed.bytes) {
			return refusal(sluice.CodeTooLarge, "the body unpacks to more than %d times its size", maxRatio)
		}
		return allowBody(size)
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
