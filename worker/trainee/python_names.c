/* python_names.c: see python_names.h. The list: keyword.kwlist and sys.stdlib_module_names of
 * Python 3.11, and the packages that an exported module or PyTorch imports. */
#include "worker/trainee/python_names.h"

#include <string.h>

static const char taken[] =
    "False None True __future__ _abc _aix_support _ast _asyncio _bisect _blake2 "
    "_bootsubprocess _bz2 _codecs _codecs_cn _codecs_hk _codecs_iso2022 _codecs_jp "
    "_codecs_kr _codecs_tw _collections _collections_abc _compat_pickle _compression "
    "_contextvars _crypt _csv _ctypes _curses _curses_panel _datetime _dbm _decimal "
    "_elementtree _frozen_importlib _frozen_importlib_external _functools _gdbm _hashlib "
    "_heapq _imp _io _json _locale _lsprof _lzma _markupbase _md5 _msi _multibytecodec "
    "_multiprocessing _opcode _operator _osx_support _overlapped _pickle _posixshmem "
    "_posixsubprocess _py_abc _pydecimal _pyio _queue _random _scproxy _sha1 _sha256 _sha3 "
    "_sha512 _signal _sitebuiltins _socket _sqlite3 _sre _ssl _stat _statistics _string "
    "_strptime _struct _symtable _thread _threading_local _tkinter _tokenize _tracemalloc "
    "_typing _uuid _warnings _weakref _weakrefset _winapi _zoneinfo abc aifc and "
    "antigravity argparse array as assert ast async asynchat asyncio asyncore atexit "
    "audioop await base64 bdb binascii bisect break builtins bz2 cProfile calendar cgi "
    "cgitb chunk class cmath cmd code codecs codeop collections colorsys compileall "
    "concurrent configparser contextlib contextvars continue copy copyreg crypt csv ctypes "
    "curses dataclasses datetime dbm decimal def del difflib dis distutils doctest elif "
    "else email encodings ensurepip enum errno except faulthandler fcntl filecmp fileinput "
    "finally fnmatch for fractions from ftplib functools gc genericpath getopt getpass "
    "gettext glob global graphlib grp gzip hashlib heapq hmac html http idlelib if imaplib "
    "imghdr imp import importlib in inspect io ipaddress is itertools json keyword lambda "
    "lib2to3 linecache locale logging lzma mailbox mailcap marshal math mimetypes mmap "
    "modulefinder msilib msvcrt multiprocessing netrc nis nntplib nonlocal not nt ntpath "
    "nturl2path numbers numpy opcode operator optparse or os ossaudiodev pass pathlib pdb "
    "pickle pickletools pipes pkgutil platform plistlib poplib posix posixpath pprint "
    "profile pstats pty pwd py_compile pyclbr pydoc pydoc_data pyexpat queue quopri raise "
    "random re readline reprlib resource return rlcompleter runpy safetensors sched secrets "
    "select selectors shelve shlex shutil signal site smtpd smtplib sndhdr socket "
    "socketserver spwd sqlite3 sre_compile sre_constants sre_parse ssl stat statistics "
    "string stringprep struct subprocess sunau symtable sys sysconfig syslog tabnanny "
    "tarfile telnetlib tempfile termios textwrap this threading time timeit tkinter token "
    "tokenize tomllib torch torchvision trace traceback tracemalloc try tty turtle "
    "turtledemo types typing unicodedata unittest urllib uu uuid venv warnings wave weakref "
    "webbrowser while winreg winsound with wsgiref xdrlib xml xmlrpc yield zipapp zipfile "
    "zipimport zlib zoneinfo ";

bool python_name_is_taken(const char *name)
{
    size_t length = strlen(name);

    for (const char *at = taken; *at; at += strcspn(at, " ") + 1)
        if (strcspn(at, " ") == length && memcmp(at, name, length) == 0)
            return true;
    return false;
}
