package spill

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"

	"sluice"
	"sluice/lib/filelock"
	"sluice/store"
)

// Reader reads a file that nobody writes any more. It holds the file, so that
// two processes on one directory do not replay it at once.
type Reader struct {
	Header Header

	file    *os.File
	in      *bufio.Reader
	records int64
	read    int64 // bytes of whole records, and the header
	size    int64
	why     error // the file ended before its end
}

// OpenFile opens a file. The error is filelock.ErrHeld, wrapped, while it is
// being written or replayed.
func OpenFile(path string) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open spill file: %w", err)
	}
	r := &Reader{file: f, in: bufio.NewReader(f), read: int64(headerBytes)}
	if err := r.begin(); err != nil {
		return nil, errors.Join(fmt.Errorf("open spill file %s: %w", path, err), f.Close())
	}
	return r, nil
}

func (r *Reader) begin() error {
	if err := filelock.Take(r.file); err != nil {
		return err
	}
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	// Another process may have held the file and finished it.
	if there, err := os.Stat(r.file.Name()); err != nil || !os.SameFile(info, there) {
		return errors.Join(os.ErrNotExist, err)
	}
	r.size = info.Size()
	head := make([]byte, headerBytes)
	n, err := io.ReadFull(r.in, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	r.Header, err = parseHeader(head[:n])
	return err
}

// Next returns the next event, encoded, or the next items that belong together
// (Header.Items), with the number of its record, from 1.
// It returns io.EOF at the end, or where the file cannot be read any further.
func (r *Reader) Next() (store.Line, error) {
	var head [recordBytes]byte
	_, err := io.ReadFull(r.in, head[:])
	switch {
	case err == io.EOF:
		return store.Line{}, io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		return r.stop("is cut short")
	case err != nil:
		return store.Line{}, fmt.Errorf("read %s: %w", r.file.Name(), err)
	}
	size := int64(binary.LittleEndian.Uint32(head[:4]))
	if size > r.size-r.read-recordBytes {
		return r.stop("is cut short, or damaged")
	}
	event := make([]byte, size)
	if _, err := io.ReadFull(r.in, event); err != nil {
		return store.Line{}, fmt.Errorf("read %s: %w", r.file.Name(), err)
	}
	if crc32.Update(crc32.Checksum(head[:4], crcTable), crcTable, event) != binary.LittleEndian.Uint32(head[4:]) {
		return r.stop("is damaged")
	}
	r.records++
	r.read += recordBytes + size
	return store.Line{Number: r.records, Text: string(event)}, nil
}

func (r *Reader) stop(what string) (store.Line, error) {
	r.why = fmt.Errorf("record %d of %s, at byte %d, %s", r.records+1, r.file.Name(), r.read, what)
	return store.Line{}, io.EOF
}

// Rest returns why the file was not read to its end, and how many bytes are
// left. The rest is either damage or a record that was being written when its
// process died. After the end of a whole file it is nil and 0.
func (r *Reader) Rest() (left int64, why error) {
	if r.why == nil {
		return 0, nil
	}
	return r.size - r.read, r.why
}

// Bytes is how far it has read, and the size of the file.
func (r *Reader) Bytes() (read, size int64) { return r.read, r.size }

// Done removes the file when all of it is where it belongs. A file with a rest,
// or to be kept for another reason, stays, with DamagedSuffix.
func (r *Reader) Done(keep bool) error {
	path := r.file.Name()
	var err error
	if left, _ := r.Rest(); left > 0 || keep {
		err = os.Rename(path, strings.TrimSuffix(path, DamagedSuffix)+DamagedSuffix)
	} else {
		err = os.Remove(path)
	}
	if err == nil {
		err = filelock.SyncDir(filepath.Dir(path))
	}
	return errors.Join(err, r.file.Close())
}

// Close leaves the file where it is.
func (r *Reader) Close() error { return r.file.Close() }

// Decode reads an event that Next returned. Its texts share memory with it.
func Decode(text string, e *sluice.Event) error { return sluice.DecodeEvent([]byte(text), e) }

// File is a file of a directory.
type File struct {
	Path  string
	Bytes int64
}

// List returns the files of a directory, those that are being written and
// damaged ones included. A directory that is not there has none.
func List(dir string) ([]File, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list spill files: %w", err)
	}
	var all []File
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), Suffix) && !strings.HasSuffix(e.Name(), Suffix+DamagedSuffix) {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue // it was replayed meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("list spill files: %w", err)
		}
		all = append(all, File{filepath.Join(dir, e.Name()), info.Size()})
	}
	return all, nil
}
