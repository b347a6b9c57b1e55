# Generated from the parser of streamctl by shtab: make completion


function _streamctl_topics
  string match -qr -- '^--(server|sesp|tls|ca|path)' (commandline -opc); and return
  timeout 1 streamctl topics --names 2>/dev/null
end

function _shtab_streamctl_scan
  set -g _shtab_streamctl_cmdpath ''
  set -g _shtab_streamctl_npos 0
  set -l tokens (commandline -opc)
  set -e tokens[1]
  set -l expect_value 0
  for t in $tokens
    if test $expect_value -eq 1
      set expect_value 0
      continue
    end
    switch "$t"
      case '--*=*'
        continue
      case '-*'
        if contains -- $t $_shtab_streamctl_opts_with_value
          set expect_value 1
        end
        continue
      case '*'
        if test $_shtab_streamctl_npos -eq 0
          set -l candidate $t
          if test -n "$_shtab_streamctl_cmdpath"
            set candidate "$_shtab_streamctl_cmdpath $t"
          end
          if contains -- $candidate $_shtab_streamctl_commands
            set -g _shtab_streamctl_cmdpath $candidate
            continue
          end
        end
        set -g _shtab_streamctl_npos (math $_shtab_streamctl_npos + 1)
    end
  end
end

function _shtab_streamctl_using
  _shtab_streamctl_scan
  test "$_shtab_streamctl_cmdpath" = "$argv"
end

set -g _shtab_streamctl_commands topics info groups create delete seal truncate publish tail export top bench verify repair backup restore config 'config check' archive pipeline 'pipeline run' 'pipeline check'
set -g _shtab_streamctl_opts_with_value --backup --before --ca --cert --conf --count --dir --file-bytes --format --from --group --interval --keep --key --last --looks --master --message-bytes-max --on-data-loss --output --path --rows --seconds --server --sesp --size --snapshot --to -c -n -o

complete -c streamctl -e
complete -c streamctl -f

complete -c streamctl -n _shtab_streamctl_using -s h -l help -d 'show this help message and exit'
complete -c streamctl -n _shtab_streamctl_using -l version -d 'show program'"'"'s version number and exit'
complete -c streamctl -n '_shtab_streamctl_using; and test $_shtab_streamctl_npos -eq 0' -a topics -d 'List the topics.'
complete -c streamctl -n '_shtab_streamctl_using topics' -s h -l help -d 'show this help message and exit'
complete -c streamctl -n '_shtab_streamctl_using topics' -l server -x -d 'the daemon'"'"'s Pravega service (default: $STREAMD_SERVER or 127.0.0.1:12345)'
complete -c streamctl -n '_shtab_streamctl_using topics' -l sesp -x -d 'its SESP service (default: $STREAMD_SESP or port 4840 of the same host)'
complete -c streamctl -n '_shtab_streamctl_using topics' -l tls -d 'speak TLS to both'
complete -c streamctl -n '_shtab_streamctl_using topics' -l ca -xka "(__fish_complete_path (commandline -ct))" -d 'speak TLS, and trust the certificates in this file alone'
complete -c streamctl -n '_shtab_streamctl_using topics' -l cert -xka "(__fish_complete_path (commandline -ct))" -d 'speak TLS, and show the certificate in this file'
complete -c streamctl -n '_shtab_streamctl_using topics' -l key -xka "(__fish_complete_path (commandline -ct))" -d 'the key to it (default: in the same file)'
complete -c streamctl -n '_shtab_streamctl_using topics' -l path -xka "(__fish_complete_directories)" -d 'read the files of this store, whether a daemon runs or not'
complete -c streamctl -n '_shtab_streamctl_using topics' -l json -d 'print JSON'
complete -c streamctl -n '_shtab_streamctl_using topics' -l names -d 'print the names alone, one a line'
complete -c streamctl -n '_shtab_streamctl_using; and test $_shtab_streamctl_npos -eq 0' -a info -d 'Tell all that is known of a topic.'
complete -c streamctl -n '_shtab_streamctl_using info' -s h -l help -d 'show this help message and exit'
complete -c streamctl -n '_shtab_streamctl_using info' -l server -x -d 'the daemon'"'"'s Pravega service (default: $STREAMD_SERVER or 127.0.0.1:12345)'
complete -c streamctl -n '_shtab_streamctl_using info' -l sesp -x -d 'its SESP service (default: $STREAMD_SESP or port 4840 of the same host)'
complete -c streamctl -n '_shtab_streamctl_using info' -l tls -d 'speak TLS to both'
complete -c streamctl -n '_shtab_streamctl_using info' -l ca -xka "(__fish_complete_path (commandline -ct))" -d 'speak TLS, and trust the certificates in this file alone'
complete -c streamctl -n '_shtab_streamctl_using info' -l cert -xka "(__fish_complete_path (commandline -ct))" -d 'speak TLS, and show the certificate in this file'
complete -c streamctl -n '_shtab_streamctl_using info' -l key -xka "(__fish_complete_path (commandline -ct))" -d 'the key to it (default: in the same file)'
complete -c streamctl -n '_shtab_streamctl_using info' -l path -xka "(__fish_complete_directories)" -d 'read the files of this store, whether a daemon runs or not'
complete -c streamctl -n '_shtab_streamctl_using info' -l json -d 'print JSON'
complete -c streamctl -n '_shtab_streamctl_using info; and test $_shtab_streamctl_npos -eq 0' -ka "(_streamctl_topics)" -d TOPIC
complete -c streamctl -n '_shtab_streamctl_using; and test $_shtab_streamctl_npos -eq 0' -a groups -d 'List the reader groups of a topic.'
complete -c streamctl -n '_shtab_streamctl_using groups' -s h -l help -d 'show this help message and exit'
complete -c streamctl -n '_shtab_streamctl_using groups' -l server -x -d 'the daemon'"'"'s Pravega service (default: $STREAMD_SERVER or 127.0.0.1:12345)'
complete -c streamctl -n '_shtab_streamctl_using groups' -l sesp -x -d 'its SESP service (default: $STREAMD_SESP or port 4840 of the same host)'
complete -c streamctl -n '_shtab_streamctl_using groups' -l tls -d 'speak TLS to both'
complete -c streamctl -n '_shtab_streamctl_using groups' -l ca -xka "(__fish_complete_path (commandline -ct))" -d 'speak TLS, and trust the certificates in this file alone'
complete -c streamctl -n '_shtab_streamctl_using groups' -l cert -xka "(__fish_complete_path (commandline -ct))" -d 'speak TLS, and show the certificate in this file'
complete -c streamctl -n '_shtab_streamctl_using groups' -l key -xka "(__fish_complete_path (commandline -ct))" -d 'the key to it (default: in the same file)'
complete -c streamctl -n '_shtab_streamctl_using groups' -l path -xka "(__fish_complete_directories)" -d 'read the files of this store, whether a daemon runs or not'
complete -c streamctl -n '_shtab_streamctl_using groups' -l json -d 'print JSON'
complete -c streamctl -n '_shtab_streamctl_using groups; and test $_shtab_streamctl_npos -eq 0' -ka "(_streamctl_topics)" -d TOPIC
complete -c streamctl -n '_shtab_streamctl_using; and test $_shtab_streamctl_npos -eq 0' -a create -d 'Make topics.'
complete -c streamctl -n '_shtab_streamctl_using create' -s h -l help -d 'show this help message and exit'
complete -c streamctl -n '_shtab_streamctl_using create' -l server -x -d 'the daemon'"'"'s Pravega service (default: $STREAMD_SERVER or 127.0.0.1:12345)'
complete -c streamctl -n '_shtab_streamctl_using create' -l sesp -x -d 'its SESP service (default: $STREAMD_SESP or port 4840 of the same host)'
complete -c streamctl -n '_shtab_streamctl_using create' -l tls -d 'speak TLS to both'
complete -c streamctl -n '_shtab_streamctl_using create' -l ca -xka "(__fish_complete_path (commandline -ct))" -d 'speak TLS, and trust the certificates in this file alone'
complete -c streamctl -n '_shtab_streamctl_using create' -l cert -xka "(__fish_complete_path (commandline -ct))" -d 'speak TLS, and show the certificate in this file'
complete -c streamctl -n '_shtab_streamctl_using create' -l key -xka "(__fish_complete_path (commandline -ct))" -d 'the key to it (default: in the same file)'
complete -c streamctl -n '_shtab_streamctl_using create' -l json -d 'print what was done as JSON'
complete -c streamctl -n '_shtab_streamctl_using create' -l exist-ok -d 'those that are there already are fine'
complete -c streamctl -n '_shtab_streamctl_using; and test $_shtab_streamctl_npos -eq 0' -a delete -d 'Delete topics with everything in them.'
complete -c streamctl -n '_shtab_streamctl_using delete' -s h -l help -d 'show this help message and exit'
complete -c streamctl -n '_shtab_streamctl_using delete' -l server -x -d 'the daemon'"'"'s Pravega service (default: $STREAMD_SERVER or 127.0.0.1:12345)'
complete -c streamctl -n '_shtab_streamctl_using delete' -l sesp -x -d 'its SESP service (default: $STREAMD_SESP or port 4840 of the same host)'
complete -c streamctl -n '_shtab_streamctl_using delete' -l tls -d 'speak TLS to both'
complete -c streamctl -n '_shtab_streamctl_using delete' -l ca -xka "(__fish_complete_path (commandline -ct))" -d 'speak TLS, and trust the certificates in this file alone'
complete -c streamctl -n '_shtab_streamctl_using delete' -l cert -xka "(__fish_complete_path (commandline -ct))" -d 'speak TLS, and show the certificate in this file'
complete -c streamctl -n '_shtab_streamctl_using delete' -l key -xka "(__fish_complete_path (commandline -ct))" -d 'the key to it (default: in the same file)'
complete -c streamctl -n '_shtab_streamctl_using delete' -l json -d 'print what was done as JSON'
complete -c streamctl -n '_shtab_streamctl_using delete' -l yes -d 'do not ask'
complete -c streamctl -n '_shtab_streamctl_using delete; and test $_shtab_streamctl_npos -ge 0' -ka "(_streamctl_topics)" -d TOPIC
complete -c streamctl -n '_shtab_streamctl_using; and test $_shtab_streamctl_npos -eq 0' -a seal -d 'Let topics take no more records.'
complete -c streamctl -n '_shtab_streamctl_using seal' -s h -l help -d 'show this help message and exit'
complete -c streamctl -n '_shtab_streamctl_using seal' -l server -x -d 'the daemon'"'"'s Pravega service (default: $STREAMD_SERVER or 127.0.0.1:12345)'
complete -c streamctl -n '_shtab_streamctl_using seal' -l sesp -x -d 'its SESP service (default: $STREAMD_SESP or port 4840 of the same host)'
complete -c streamctl -n '_shtab_streamctl_using seal' -l tls -d 'speak TLS to both'
complete -c streamctl -n '_shtab_streamctl_using seal' -l ca -xka "(__fish_complete_path (commandline -ct))" -d 'speak TLS, and trust the certificates in this file alone'
complete -c streamctl -n '_shtab_streamctl_using seal' -l cert -xka "(__fish_complete_path (commandline -ct))" -d 'speak TLS, and show the certificate in this file'
complete -c streamctl -n '_shtab_streamctl_using seal' -l key -xka "(__fish_complete_path (commandline -ct))" -d 'the key to it (default: in the same file)'
complete -c streamctl -n '_shtab_streamctl_using seal' -l json -d 'print what was done as JSON'
complete -c streamctl -n '_shtab_streamctl_using seal; and test $_shtab_streamctl_npos -ge 0' -ka "(_streamctl_topics)" -d TOPIC
complete -c streamctl -n '_shtab_streamctl_using; and test $_shtab_streamctl_npos -eq 0' -a truncate -d 'Drop the oldest records of a topic.'
complete -c streamctl -n '_shtab_streamctl_using truncate' -s h -l help -d 'show this help message and exit'
complete -c streamctl -n '_shtab_streamctl_using truncate' -l server -x -d 'the daemon'"'"'s Pravega service (default: $STREAMD_SERVER or 127.0.0.1:12345)'
complete -c streamctl -n '_shtab_streamctl_using truncate' -l sesp -x -d 'its SESP service (default: $STREAMD_SESP or port 4840 of the same host)'
complete -c streamctl -n '_shtab_streamctl_using truncate' -l tls -d 'speak TLS to both'
complete -c streamctl -n '_shtab_streamctl_using truncate' -l ca -xka "(__fish_complete_path (commandline -ct))" -d 'speak TLS, and trust the certificates in this file alone'
complete -c streamctl -n '_shtab_streamctl_using truncate' -l cert -xka "(__fish_complete_path (commandline -ct))" -d 'speak TLS, and show the certificate in this file'
complete -c streamctl -n '_shtab_streamctl_using truncate' -l key -xka "(__fish_complete_path (commandline -ct))" -d 'the key to it (default: in the same file)'
complete -c streamctl -n '_shtab_streamctl_using truncate' -l json -d 'print what was done as JSON'
complete -c streamctl -n '_shtab_streamctl_using truncate' -l before -x -d 'the first record that is kept: first, end, an offset (1000), a time (2026-11-16T18:00, UTC), or so long ago: 90s, 10m, 2h, 1d'
complete -c streamctl -n '_shtab_streamctl_using truncate; and test $_shtab_streamctl_npos -eq 0' -ka "(_streamctl_topics)" -d TOPIC
complete -c streamctl -n '_shtab_streamctl_using; and test $_shtab_streamctl_npos -eq 0' -a publish -d 'Publish each line of files, or of the standard input, to a topic. It ends when all is on disk.'
complete -c streamctl -n '_shtab_streamctl_using publish' -s h -l help -d 'show this help message and exit'
complete -c streamctl -n '_shtab_streamctl_using publish' -l whole -d 'each file is one record, whatever is in it'
complete -c streamctl -n '_shtab_streamctl_using publish' -l create -d 'make the topic where it is not there'
complete -c streamctl -n '_shtab_streamctl_using publish' -l message-bytes-max -x -d 'the largest record: what limits.message_bytes_max of the daemon is (default: 8m)'
complete -c streamctl -n '_shtab_streamctl_using publish' -l no-progress -d 'show no progress bar'
complete -c streamctl -n '_shtab_streamctl_using publish' -l json -d 'print what was published as JSON'
complete -c streamctl -n '_shtab_streamctl_using publish' -l server -x -d 'the daemon'"'"'s Pravega service (default: $STREAMD_SERVER or 127.0.0.1:12345)'
complete -c streamctl -n '_shtab_streamctl_using publish' -l sesp -x -d 'its SESP service (default: $STREAMD_SESP or port 4840 of the same host)'
complete -c streamctl -n '_shtab_streamctl_using publish' -l tls -d 'speak TLS to both'
complete -c streamctl -n '_shtab_streamctl_using publish' -l ca -xka "(__fish_complete_path (commandline -ct))" -d 'speak TLS, and trust the certificates in this file alone'
complete -c streamctl -n '_shtab_streamctl_using publish' -l cert -xka "(__fish_complete_path (commandline -ct))" -d 'speak TLS, and show the certificate in this file'
complete -c streamctl -n '_shtab_streamctl_using publish' -l key -xka "(__fish_complete_path (commandline -ct))" -d 'the key to it (default: in the same file)'
complete -c streamctl -n '_shtab_streamctl_using publish; and test $_shtab_streamctl_npos -eq 0' -ka "(_streamctl_topics)" -d TOPIC
complete -c streamctl -n '_shtab_streamctl_using publish; and test $_shtab_streamctl_npos -ge 1' -ka "(__fish_complete_path (commandline -ct))" -d '- is the standard input, as is no file at all'
complete -c streamctl -n '_shtab_streamctl_using; and test $_shtab_streamctl_npos -eq 0' -a tail -d 'Print the last 10 records of a topic, or all from a place on. What a line can'"'"'t hold is escaped: \n, \xff.'
complete -c streamctl -n '_shtab_streamctl_using tail' -s h -l help -d 'show this help message and exit'
complete -c streamctl -n '_shtab_streamctl_using tail' -s f -l follow -d 'go on as records come, until Ctrl-C'
complete -c streamctl -n '_shtab_streamctl_using tail' -l from -x -d 'first, end, an offset (1000), a time (2026-11-16T18:00, UTC), or so long ago: 90s, 10m, 2h, 1d'
complete -c streamctl -n '_shtab_streamctl_using tail' -s n -l last -x -d 'the last N records (default: 10)'
complete -c streamctl -n '_shtab_streamctl_using tail' -s c -l count -x -d 'end after N records'
complete -c streamctl -n '_shtab_streamctl_using tail' -l raw -d 'the bytes as they are, with nothing between two records'
complete -c streamctl -n '_shtab_streamctl_using tail' -l json -d 'print a JSON object for each record, one a line'
complete -c streamctl -n '_shtab_streamctl_using tail' -l server -x -d 'the daemon'"'"'s Pravega service (default: $STREAMD_SERVER or 127.0.0.1:12345)'
complete -c streamctl -n '_shtab_streamctl_using tail' -l sesp -x -d 'its SESP service (default: $STREAMD_SESP or port 4840 of the same host)'
complete -c streamctl -n '_shtab_streamctl_using tail' -l tls -d 'speak TLS to both'
complete -c streamctl -n '_shtab_streamctl_using tail' -l ca -xka "(__fish_complete_path (commandline -ct))" -d 'speak TLS, and trust the certificates in this file alone'
complete -c streamctl -n '_shtab_streamctl_using tail' -l cert -xka "(__fish_complete_path (commandline -ct))" -d 'speak TLS, and show the certificate in this file'
complete -c streamctl -n '_shtab_streamctl_using tail' -l key -xka "(__fish_complete_path (commandline -ct))" -d 'the key to it (default: in the same file)'
complete -c streamctl -n '_shtab_streamctl_using tail' -l path -xka "(__fish_complete_directories)" -d 'read the files of this store, whether a daemon runs or not'
complete -c streamctl -n '_shtab_streamctl_using tail; and test $_shtab_streamctl_npos -eq 0' -ka "(_streamctl_topics)" -d TOPIC
complete -c streamctl -n '_shtab_streamctl_using; and test $_shtab_streamctl_npos -eq 0' -a export -d 'Write the records of topics as JSON lines or as Parquet, up to those that are there now.'
complete -c streamctl -n '_shtab_streamctl_using export' -s h -l help -d 'show this help message and exit'
complete -c streamctl -n '_shtab_streamctl_using export' -l format -xka "jsonl parquet" -d '(default: jsonl)'
complete -c streamctl -n '_shtab_streamctl_using export' -s o -l output -xka "(__fish_complete_path (commandline -ct))" -d 'where to (default: standard output, JSON lines only)'
complete -c streamctl -n '_shtab_streamctl_using export' -l from -x -d 'first, end, an offset (1000), a time (2026-11-16T18:00, UTC), or so long ago: 90s, 10m, 2h, 1d'
complete -c streamctl -n '_shtab_streamctl_using export' -l to -x -d 'the first that is left out'
complete -c streamctl -n '_shtab_streamctl_using export' -l json -d 'print what was written as JSON; needs --output'
complete -c streamctl -n '_shtab_streamctl_using export' -l server -x -d 'the daemon'"'"'s Pravega service (default: $STREAMD_SERVER or 127.0.0.1:12345)'
complete -c streamctl -n '_shtab_streamctl_using export' -l sesp -x -d 'its SESP service (default: $STREAMD_SESP or port 4840 of the same host)'
complete -c streamctl -n '_shtab_streamctl_using export' -l tls -d 'speak TLS to both'
complete -c streamctl -n '_shtab_streamctl_using export' -l ca -xka "(__fish_complete_path (commandline -ct))" -d 'speak TLS, and trust the certificates in this file alone'
complete -c streamctl -n '_shtab_streamctl_using export' -l cert -xka "(__fish_complete_path (commandline -ct))" -d 'speak TLS, and show the certificate in this file'
complete -c streamctl -n '_shtab_streamctl_using export' -l key -xka "(__fish_complete_path (commandline -ct))" -d 'the key to it (default: in the same file)'
complete -c streamctl -n '_shtab_streamctl_using export' -l path -xka "(__fish_complete_directories)" -d 'read the files of this store, whether a daemon runs or not'
complete -c streamctl -n '_shtab_streamctl_using export; and test $_shtab_streamctl_npos -ge 0' -ka "(_streamctl_topics)" -d TOPIC
complete -c streamctl -n '_shtab_streamctl_using; and test $_shtab_streamctl_npos -eq 0' -a top -d 'Show the busiest topics, and what comes to them in a second, until Ctrl-C.'
complete -c streamctl -n '_shtab_streamctl_using top' -s h -l help -d 'show this help message and exit'
complete -c streamctl -n '_shtab_streamctl_using top' -l interval -x -d '(default: 1.0)'
complete -c streamctl -n '_shtab_streamctl_using top' -l looks -x -d 'end after N looks'
complete -c streamctl -n '_shtab_streamctl_using top' -l rows -x -d 'topics shown (default: 20)'
complete -c streamctl -n '_shtab_streamctl_using top' -l json -d 'print a JSON object for each look, one a line'
complete -c streamctl -n '_shtab_streamctl_using top' -l server -x -d 'the daemon'"'"'s Pravega service (default: $STREAMD_SERVER or 127.0.0.1:12345)'
complete -c streamctl -n '_shtab_streamctl_using top' -l sesp -x -d 'its SESP service (default: $STREAMD_SESP or port 4840 of the same host)'
complete -c streamctl -n '_shtab_streamctl_using top' -l tls -d 'speak TLS to both'
complete -c streamctl -n '_shtab_streamctl_using top' -l ca -xka "(__fish_complete_path (commandline -ct))" -d 'speak TLS, and trust the certificates in this file alone'
complete -c streamctl -n '_shtab_streamctl_using top' -l cert -xka "(__fish_complete_path (commandline -ct))" -d 'speak TLS, and show the certificate in this file'
complete -c streamctl -n '_shtab_streamctl_using top' -l key -xka "(__fish_complete_path (commandline -ct))" -d 'the key to it (default: in the same file)'
complete -c streamctl -n '_shtab_streamctl_using top' -l path -xka "(__fish_complete_directories)" -d 'read the files of this store, whether a daemon runs or not'
complete -c streamctl -n '_shtab_streamctl_using; and test $_shtab_streamctl_npos -eq 0' -a bench -d 'Publish as fast as it goes, one record at a time, and read it all back. Without --server, on a daemon of its own.'
complete -c streamctl -n '_shtab_streamctl_using bench' -s h -l help -d 'show this help message and exit'
complete -c streamctl -n '_shtab_streamctl_using bench' -l seconds -x -d 'for each of the two writes (default: 15)'
complete -c streamctl -n '_shtab_streamctl_using bench' -l size -x -d 'of a record (default: 100)'
complete -c streamctl -n '_shtab_streamctl_using bench' -l dir -xka "(__fish_complete_directories)" -d 'where its store is made (default: the working directory)'
complete -c streamctl -n '_shtab_streamctl_using bench' -l json -d 'print what was measured as JSON'
complete -c streamctl -n '_shtab_streamctl_using bench' -l server -x -d 'measure this daemon, by its Pravega service, not one of its own'
complete -c streamctl -n '_shtab_streamctl_using bench' -l sesp -x -d 'its SESP service (default: $STREAMD_SESP or port 4840 of the same host)'
complete -c streamctl -n '_shtab_streamctl_using bench' -l tls -d 'speak TLS to both'
complete -c streamctl -n '_shtab_streamctl_using bench' -l ca -xka "(__fish_complete_path (commandline -ct))" -d 'speak TLS, and trust the certificates in this file alone'
complete -c streamctl -n '_shtab_streamctl_using bench' -l cert -xka "(__fish_complete_path (commandline -ct))" -d 'speak TLS, and show the certificate in this file'
complete -c streamctl -n '_shtab_streamctl_using bench' -l key -xka "(__fish_complete_path (commandline -ct))" -d 'the key to it (default: in the same file)'
complete -c streamctl -n '_shtab_streamctl_using; and test $_shtab_streamctl_npos -eq 0' -a verify -d 'Check every checksum of a store, running or not.'
complete -c streamctl -n '_shtab_streamctl_using verify' -s h -l help -d 'show this help message and exit'
complete -c streamctl -n '_shtab_streamctl_using verify' -l json -d 'print JSON'
complete -c streamctl -n '_shtab_streamctl_using verify' -l no-progress -d 'show no progress bar'
complete -c streamctl -n '_shtab_streamctl_using verify' -l path -xka "(__fish_complete_directories)" -d 'the store (default: streamd-data; where there is none, /var/lib/streamd)'
complete -c streamctl -n '_shtab_streamctl_using verify' -l backup -xka "(__fish_complete_directories)" -d 'check the files of this backup instead'
complete -c streamctl -n '_shtab_streamctl_using; and test $_shtab_streamctl_npos -eq 0' -a repair -d 'Tell what can be saved of a damaged store, and save it.'
complete -c streamctl -n '_shtab_streamctl_using repair' -s h -l help -d 'show this help message and exit'
complete -c streamctl -n '_shtab_streamctl_using repair' -l json -d 'print JSON'
complete -c streamctl -n '_shtab_streamctl_using repair' -l no-progress -d 'show no progress bar'
complete -c streamctl -n '_shtab_streamctl_using repair' -l path -xka "(__fish_complete_directories)" -d 'the store (default: streamd-data; where there is none, /var/lib/streamd)'
complete -c streamctl -n '_shtab_streamctl_using repair' -l apply -d 'do it; without this, nothing is changed'
complete -c streamctl -n '_shtab_streamctl_using; and test $_shtab_streamctl_npos -eq 0' -a backup -d 'Add a snapshot of a store, running or not, to a backup.'
complete -c streamctl -n '_shtab_streamctl_using backup' -s h -l help -d 'show this help message and exit'
complete -c streamctl -n '_shtab_streamctl_using backup' -l json -d 'print JSON'
complete -c streamctl -n '_shtab_streamctl_using backup' -l no-progress -d 'show no progress bar'
complete -c streamctl -n '_shtab_streamctl_using backup' -l path -xka "(__fish_complete_directories)" -d 'the store (default: streamd-data; where there is none, /var/lib/streamd)'
complete -c streamctl -n '_shtab_streamctl_using backup' -l keep -x -d 'then forget all snapshots but the last N'
complete -c streamctl -n '_shtab_streamctl_using backup' -l list -d 'list the snapshots in it, and add none'
complete -c streamctl -n '_shtab_streamctl_using backup; and test $_shtab_streamctl_npos -eq 0' -ka "(__fish_complete_directories)" -d 'the backup; a new one where there is nothing yet'
complete -c streamctl -n '_shtab_streamctl_using; and test $_shtab_streamctl_npos -eq 0' -a restore -d 'Make a store of a snapshot.'
complete -c streamctl -n '_shtab_streamctl_using restore' -s h -l help -d 'show this help message and exit'
complete -c streamctl -n '_shtab_streamctl_using restore' -l json -d 'print JSON'
complete -c streamctl -n '_shtab_streamctl_using restore' -l no-progress -d 'show no progress bar'
complete -c streamctl -n '_shtab_streamctl_using restore' -l snapshot -x -d 'which one (default: the latest)'
complete -c streamctl -n '_shtab_streamctl_using restore; and test $_shtab_streamctl_npos -eq 0' -ka "(__fish_complete_directories)" -d 'the backup'
complete -c streamctl -n '_shtab_streamctl_using restore; and test $_shtab_streamctl_npos -eq 1' -ka "(__fish_complete_directories)" -d 'the store: a new or empty directory'
complete -c streamctl -n '_shtab_streamctl_using; and test $_shtab_streamctl_npos -eq 0' -a config -d 'Look at a configuration of the daemon.'
complete -c streamctl -n '_shtab_streamctl_using config' -s h -l help -d 'show this help message and exit'
complete -c streamctl -n '_shtab_streamctl_using config; and test $_shtab_streamctl_npos -eq 0' -a check -d 'Check every value of a configuration as the daemon does at its start, and start nothing.'
complete -c streamctl -n '_shtab_streamctl_using config check' -s h -l help -d 'show this help message and exit'
complete -c streamctl -n '_shtab_streamctl_using config check' -l json -d 'print what counts in the end, defaults and all, as JSON'
complete -c streamctl -n '_shtab_streamctl_using config check; and test $_shtab_streamctl_npos -eq 0' -ka "(__fish_complete_path (commandline -ct))" -d 'the configuration, see streamd.toml(5)'
complete -c streamctl -n '_shtab_streamctl_using; and test $_shtab_streamctl_npos -eq 0' -a archive -d 'Write what has come to topics since the last time to Parquet files, each record once.'
complete -c streamctl -n '_shtab_streamctl_using archive' -s h -l help -d 'show this help message and exit'
complete -c streamctl -n '_shtab_streamctl_using archive' -l to -x -d 'the archive: a directory or a URI of Spark'"'"'s'
complete -c streamctl -n '_shtab_streamctl_using archive' -l server -x -d 'the daemon'"'"'s Pravega service (default: 127.0.0.1:12345)'
complete -c streamctl -n '_shtab_streamctl_using archive' -l path -xka "(__fish_complete_directories)" -d 'read the files of this store; without --server, tell no daemon'
complete -c streamctl -n '_shtab_streamctl_using archive' -l group -x -d 'the reader group (default: archive)'
complete -c streamctl -n '_shtab_streamctl_using archive' -l file-bytes -x -d 'records in a file, about (default: 256m)'
complete -c streamctl -n '_shtab_streamctl_using archive' -l no-wait -d 'put small files in place too, before their day is over'
complete -c streamctl -n '_shtab_streamctl_using archive' -l on-data-loss -xka "fail skip" -d 'what to do when records are gone before they were archived (default: fail)'
complete -c streamctl -n '_shtab_streamctl_using archive' -l json -d 'print what was done as JSON'
complete -c streamctl -n '_shtab_streamctl_using archive' -l master -x -d 'the Spark cluster (default: local[*])'
complete -c streamctl -n '_shtab_streamctl_using archive' -l conf -x -d 'a setting of Spark; may be given more than once'
complete -c streamctl -n '_shtab_streamctl_using archive; and test $_shtab_streamctl_npos -ge 0' -ka "(_streamctl_topics)" -d 'a topic, or a pattern such as '"'"'logs.*'"'"''
complete -c streamctl -n '_shtab_streamctl_using; and test $_shtab_streamctl_npos -eq 0' -a pipeline -d 'Run or check a pipeline.'
complete -c streamctl -n '_shtab_streamctl_using pipeline' -s h -l help -d 'show this help message and exit'
complete -c streamctl -n '_shtab_streamctl_using pipeline; and test $_shtab_streamctl_npos -eq 0' -a run -d 'Run a pipeline, from where it was, until SIGTERM or Ctrl-C.'
complete -c streamctl -n '_shtab_streamctl_using pipeline run' -s h -l help -d 'show this help message and exit'
complete -c streamctl -n '_shtab_streamctl_using pipeline run' -l once -d 'end when all that is there now is read'
complete -c streamctl -n '_shtab_streamctl_using pipeline run' -l json -d 'print JSON, one object a line'
complete -c streamctl -n '_shtab_streamctl_using pipeline run' -l master -x -d 'the Spark cluster (default: local[*])'
complete -c streamctl -n '_shtab_streamctl_using pipeline run' -l conf -x -d 'a setting of Spark; may be given more than once'
complete -c streamctl -n '_shtab_streamctl_using pipeline run; and test $_shtab_streamctl_npos -eq 0' -ka "(__fish_complete_path (commandline -ct))" -d 'the pipeline, in TOML'
complete -c streamctl -n '_shtab_streamctl_using pipeline; and test $_shtab_streamctl_npos -eq 0' -a check -d 'Check a pipeline'"'"'s file and its SQL, and run nothing.'
complete -c streamctl -n '_shtab_streamctl_using pipeline check' -s h -l help -d 'show this help message and exit'
complete -c streamctl -n '_shtab_streamctl_using pipeline check' -l json -d 'print JSON, one object a line'
complete -c streamctl -n '_shtab_streamctl_using pipeline check' -l master -x -d 'the Spark cluster (default: local[*])'
complete -c streamctl -n '_shtab_streamctl_using pipeline check' -l conf -x -d 'a setting of Spark; may be given more than once'
complete -c streamctl -n '_shtab_streamctl_using pipeline check; and test $_shtab_streamctl_npos -eq 0' -ka "(__fish_complete_path (commandline -ct))" -d 'the pipeline, in TOML'
