package transfer

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"sluice/lib/faults"
	"sluice/lib/filelock"
	"sluice/store"
)

// An archive is a tar file, so that any machine can look into it:
//
//	sql/TABLE.NNNNNN.ndjson.zst   rows of a table, one JSON object a line
//	held.NNNNNN.ndjson.zst        what was held of the lists
//	lists.NNNNNN.ndjson.zst       the state of the lists
//	log.NNNNNN.ndjson.zst         entries of the logs
//	sources.NNNNNN.ndjson.zst     what the logs remember of their sources
//	manifest.json                 what it is, and the checksum of every member
//
// Lines are gathered to members of some megabytes, each packed by itself, so
// that writing and reading need the memory of one. The manifest comes last: an
// archive without it was broken off, and is refused. The file has its name
// only when it is whole and on disk.
const (
	archiveFormat  = "sluice-backup"
	archiveVersion = 1
	manifestName   = "manifest.json"

	// memberBytes is where a member is full, not packed.
	memberBytes = 4 << 20

	// maxMemberBytes bounds a member that is read, packed and not: a line holds
	// what one item of a log does, which Redis bounds to 512 MB, in base64.
	maxMemberBytes = 1 << 30

	// maxManifestBytes bounds the manifest: a terabyte has some 10 MB of it.
	maxManifestBytes = 256 << 20
)

// Manifest says what is in an archive.
type Manifest struct {
	Format     string    `json:"format"`
	Version    int       `json:"version"`
	Program    string    `json:"program"`
	Dialect    string    `json:"dialect"`
	Schema     int       `json:"schema_version"`
	Deployment string    `json:"deployment"`
	Partitions int       `json:"partitions"`
	Began      time.Time `json:"began"`
	Snapshot   time.Time `json:"snapshot"`
	Ended      time.Time `json:"ended"`

	// Secrets says what was done with the secrets of the database: SecretsLeftOut,
	// SecretsSealed, or empty: there were none, or they are as they were (backups of
	// before).
	Secrets string `json:"secrets,omitempty"`

	// Missing are the lists whose servers did not answer: what was held of them is not
	// in it.
	Missing []string `json:"missing_lists,omitempty"`

	Tables  []ManifestTable `json:"tables"`
	Logs    []ManifestLog   `json:"logs"`
	Members []Member        `json:"members"`
}

// ManifestTable is a table of an archive.
type ManifestTable struct {
	store.DumpTable
	Rows int64 `json:"rows"`
}

// ManifestLog is what an archive has of the log of a partition: entries behind
// From, the last one at To. Entries behind To are no part of it.
type ManifestLog struct {
	Partition int    `json:"partition"`
	From      string `json:"from"`
	To        string `json:"to"`
	Entries   int64  `json:"entries"`
}

// Member is a file in an archive.
type Member struct {
	Name   string `json:"name"`
	Lines  int    `json:"lines"`
	Bytes  int64  `json:"bytes"` // packed
	SHA256 string `json:"sha256"`
}

// archiveWriter writes an archive. Its methods may be called from several
// goroutines.
type archiveWriter struct {
	path string
	file *os.File

	mu      sync.Mutex
	tar     *tar.Writer
	packer  *zstd.Encoder
	members []Member
	numbers map[string]int
	bytes   int64
}

// createArchive begins to write path.
func createArchive(path string) (*archiveWriter, error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("write backup %s: it is there already: name a new file, or a directory", path)
	}
	file, err := os.OpenFile(path+".part", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("write backup: %w: another backup is at work, or one was killed; if none is, remove it", err)
	}
	if err != nil {
		return nil, fmt.Errorf("write backup: %w", err)
	}
	packer, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(path+".part"))
	}
	return &archiveWriter{path: path, file: file, tar: tar.NewWriter(file), packer: packer, numbers: make(map[string]int)}, nil
}

// add writes lines as the next member of a kind.
func (w *archiveWriter) add(kind string, lines int, text []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.numbers[kind]++
	name := fmt.Sprintf("%s.%06d.ndjson.zst", kind, w.numbers[kind])
	packed := w.packer.EncodeAll(text, nil)
	sum := sha256.Sum256(packed)
	w.members = append(w.members, Member{Name: name, Lines: lines, Bytes: int64(len(packed)), SHA256: hex.EncodeToString(sum[:])})
	return w.write(name, packed)
}

func (w *archiveWriter) write(name string, data []byte) error {
	w.bytes += int64(len(data))
	err := w.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(data)), Format: tar.FormatPAX, ModTime: time.Now().Truncate(time.Second)})
	if err == nil {
		_, err = w.tar.Write(data)
	}
	if err != nil {
		return fmt.Errorf("write backup %s: %w", w.path, err)
	}
	return nil
}

// written returns how many bytes are in the archive so far.
func (w *archiveWriter) written() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes
}

// finish writes the manifest and gives the file its name.
func (w *archiveWriter) finish(m *Manifest) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	m.Format, m.Version, m.Members = archiveFormat, archiveVersion, w.members
	text, err := json.MarshalIndent(m, "", " ")
	if err == nil {
		err = w.write(manifestName, append(text, '\n'))
	}
	if err == nil {
		err = w.tar.Close()
	}
	if err == nil {
		err = w.durable()
	}
	if err != nil {
		return fmt.Errorf("finish backup %s: %w", w.path, err)
	}
	return nil
}

// durable gives the file its name once all of it is on the disk, and takes the
// name away again if that cannot be made durable: whatever has the name is whole.
func (w *archiveWriter) durable() error {
	err := faults.Hit("backup-sync")
	if err == nil {
		err = w.file.Sync()
	}
	if err != nil {
		return err // it keeps the name of a part, which abandon removes
	}
	if err := w.file.Close(); err != nil {
		return err
	}
	if err := os.Rename(w.path+".part", w.path); err != nil {
		return err
	}
	err = faults.Hit("backup-sync-directory")
	if err == nil {
		err = filelock.SyncDir(filepath.Dir(w.path))
	}
	if err != nil {
		return errors.Join(err, os.Remove(w.path))
	}
	return nil
}

// abandon removes what is not whole.
func (w *archiveWriter) abandon() error {
	err := w.file.Close()
	if errors.Is(err, os.ErrClosed) {
		err = nil
	}
	removed := os.Remove(w.path + ".part")
	if errors.Is(removed, fs.ErrNotExist) {
		removed = nil
	}
	return errors.Join(err, removed)
}

// lines gathers lines to members of a kind. Its methods may be called from
// several goroutines.
type lines struct {
	to   *archiveWriter
	kind string

	mu    sync.Mutex
	text  []byte
	count int
	total int64
}

// add has fn append one line, without its end.
func (l *lines) add(fn func([]byte) []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(fn(l.text), '\n')
	l.count++
	l.total++
	if len(l.text) < memberBytes {
		return nil
	}
	return l.flushLocked()
}

func (l *lines) flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count == 0 {
		return nil
	}
	return l.flushLocked()
}

func (l *lines) flushLocked() error {
	err := l.to.add(l.kind, l.count, l.text)
	l.text, l.count = l.text[:0], 0
	return err
}

// Archive is a whole archive, looked through and found right.
type Archive struct {
	Manifest
	file     *os.File
	unpacker *zstd.Decoder
	sums     map[string]string
}

// OpenArchive reads an archive through: every member must be there, with its
// checksum, and nothing else.
func OpenArchive(path string, progress func(read, size int64)) (*Archive, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read backup: %w", err)
	}
	a := &Archive{file: file, sums: make(map[string]string)}
	a.unpacker, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxMemberBytes))
	if err == nil {
		err = a.check(progress)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read backup %s: %w", path, err), file.Close())
	}
	return a, nil
}

// hasCheckpoints reports whether the backup says where people are in journeys. Those of
// earlier versions do not.
func (a *Archive) hasCheckpoints() bool {
	return slices.ContainsFunc(a.Tables, func(t ManifestTable) bool { return t.Name == "journey_checkpoints" && t.Rows > 0 })
}

// Close ends reading.
func (a *Archive) Close() error { return a.file.Close() }

func (a *Archive) check(progress func(read, size int64)) error {
	info, err := a.file.Stat()
	if err != nil {
		return err
	}
	found := make(map[string]string)
	read := int64(0)
	err = a.members(func(name string, size int64, r io.Reader) error {
		read += size
		if progress != nil {
			progress(read, info.Size())
		}
		if name == manifestName {
			if size > maxManifestBytes {
				return fmt.Errorf("its manifest has %d bytes, at most %d are read", size, int64(maxManifestBytes))
			}
			return json.NewDecoder(r).Decode(&a.Manifest)
		}
		sum := sha256.New()
		_, err := io.Copy(sum, r)
		found[name] = hex.EncodeToString(sum.Sum(nil))
		return err
	})
	switch {
	case err != nil:
		return err
	case a.Format == "":
		return errors.New("it has no manifest: it was broken off, or is no backup of sluice")
	case a.Format != archiveFormat || a.Version != archiveVersion:
		return fmt.Errorf("it is a %s of version %d, this program reads version %d of %s", a.Format, a.Version, archiveVersion, archiveFormat)
	}
	for _, m := range a.Members {
		if found[m.Name] != m.SHA256 {
			return fmt.Errorf("member %s is missing or has another checksum than its manifest says: the file is damaged", m.Name)
		}
		a.sums[m.Name] = m.SHA256
	}
	if len(found) != len(a.Members) {
		return errors.New("it has members that its manifest does not know")
	}
	return nil
}

// members hands the members of the file to fn, in their order.
func (a *Archive) members(fn func(name string, size int64, r io.Reader) error) error {
	if _, err := a.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r := tar.NewReader(a.file)
	for {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("it is damaged: %w", err)
		}
		if err := fn(h.Name, h.Size, r); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
}

// Lines hands the lines of all members of a kind to fn: "sql/events", "log".
func (a *Archive) Lines(kind string, fn func(line string) error) error {
	return a.members(func(name string, size int64, r io.Reader) error {
		number, ok := strings.CutPrefix(name, kind+".")
		if !ok || strings.Contains(number, "/") {
			return nil
		}
		if size > maxMemberBytes {
			return fmt.Errorf("it has %d bytes, at most %d are read", size, maxMemberBytes)
		}
		packed, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		// Once more: it may have been written over since it was looked through.
		if sum := sha256.Sum256(packed); hex.EncodeToString(sum[:]) != a.sums[name] {
			return errors.New("its checksum has changed while it was read")
		}
		text, err := a.unpacker.DecodeAll(packed, nil)
		if err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
		for line := range bytes.Lines(text) {
			if err := fn(string(bytes.TrimSuffix(line, []byte("\n")))); err != nil {
				return err
			}
		}
		return nil
	})
}
