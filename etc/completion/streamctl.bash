# Generated from the parser of streamctl by shtab: make completion

_shtab_streamctl_groups_subparsers=(list show reset delete set consume dead)
_shtab_streamctl_config_subparsers=(check)
_shtab_streamctl_context_subparsers=(list set use remove)
_shtab_streamctl_pipeline_subparsers=(run check)
_shtab_streamctl_subparsers=(topics info create delete seal truncate groups publish tail export import copy top bench verify repair backup restore config context archive pipeline)

_shtab_streamctl_topics_option_strings=(-h --help --server --context --tls --ca --cert --key --path --json --names)
_shtab_streamctl_info_option_strings=(-h --help --server --context --tls --ca --cert --key --path --json)
_shtab_streamctl_create_option_strings=(-h --help --server --context --tls --ca --cert --key --json --exist-ok)
_shtab_streamctl_delete_option_strings=(-h --help --server --context --tls --ca --cert --key --json --yes)
_shtab_streamctl_seal_option_strings=(-h --help --server --context --tls --ca --cert --key --json)
_shtab_streamctl_truncate_option_strings=(-h --help --server --context --tls --ca --cert --key --json --before)
_shtab_streamctl_groups_list_option_strings=(-h --help --server --context --tls --ca --cert --key --json)
_shtab_streamctl_groups_show_option_strings=(-h --help --server --context --tls --ca --cert --key --json)
_shtab_streamctl_groups_reset_option_strings=(-h --help --server --context --tls --ca --cert --key --json --to --apply --force)
_shtab_streamctl_groups_delete_option_strings=(-h --help --server --context --tls --ca --cert --key --json --yes --force)
_shtab_streamctl_groups_set_option_strings=(-h --help --server --context --tls --ca --cert --key --json --deliveries-max --retry-seconds --dead-letter --clear)
_shtab_streamctl_groups_consume_option_strings=(-h --help --server --context --tls --ca --cert --key --raw --json --format -f --follow -c --count --wait --ack --latest)
_shtab_streamctl_groups_dead_option_strings=(-h --help --server --context --tls --ca --cert --key --json --group --all --send-back --apply)
_shtab_streamctl_groups_option_strings=(-h --help)
_shtab_streamctl_publish_option_strings=(-h --help -i --file --whole --create --message-bytes-max --delay --at --wait --no-progress --json --server --context --tls --ca --cert --key)
_shtab_streamctl_tail_option_strings=(-h --help -f --follow --from -n --last -c --count --group --raw --json --format --server --context --tls --ca --cert --key --path)
_shtab_streamctl_export_option_strings=(-h --help --format -o --output --from --to --json --server --context --tls --ca --cert --key --path)
_shtab_streamctl_import_option_strings=(-h --help --create --json --server --context --tls --ca --cert --key)
_shtab_streamctl_copy_option_strings=(-h --help --to-server --from --to -f --follow --create --json --server --context --tls --ca --cert --key --path)
_shtab_streamctl_top_option_strings=(-h --help --interval --looks --rows --json --server --context --tls --ca --cert --key --path)
_shtab_streamctl_bench_option_strings=(-h --help --seconds --size --dir --json --server --context --tls --ca --cert --key)
_shtab_streamctl_verify_option_strings=(-h --help --json --no-progress --path --backup)
_shtab_streamctl_repair_option_strings=(-h --help --json --no-progress --path --apply)
_shtab_streamctl_backup_option_strings=(-h --help --json --no-progress --path --keep --list)
_shtab_streamctl_restore_option_strings=(-h --help --json --no-progress --snapshot)
_shtab_streamctl_config_check_option_strings=(-h --help --json)
_shtab_streamctl_config_option_strings=(-h --help)
_shtab_streamctl_context_list_option_strings=(-h --help --json)
_shtab_streamctl_context_set_option_strings=(-h --help --json)
_shtab_streamctl_context_use_option_strings=(-h --help --json)
_shtab_streamctl_context_remove_option_strings=(-h --help --json)
_shtab_streamctl_context_option_strings=(-h --help)
_shtab_streamctl_archive_option_strings=(-h --help --to --server --context --path --group --file-bytes --schema --format --on-data-loss --json --master --conf)
_shtab_streamctl_pipeline_run_option_strings=(-h --help --once --json --master --conf)
_shtab_streamctl_pipeline_check_option_strings=(-h --help --json --master --conf)
_shtab_streamctl_pipeline_option_strings=(-h --help)
_shtab_streamctl_option_strings=(-h --help --version)

_shtab_streamctl_topics___ca_COMPGEN=_shtab_compgen_files
_shtab_streamctl_topics___cert_COMPGEN=_shtab_compgen_files
_shtab_streamctl_topics___key_COMPGEN=_shtab_compgen_files
_shtab_streamctl_topics___path_COMPGEN=_shtab_compgen_dirs
_shtab_streamctl_info_pos_0_COMPGEN=_streamctl_topics
_shtab_streamctl_info___ca_COMPGEN=_shtab_compgen_files
_shtab_streamctl_info___cert_COMPGEN=_shtab_compgen_files
_shtab_streamctl_info___key_COMPGEN=_shtab_compgen_files
_shtab_streamctl_info___path_COMPGEN=_shtab_compgen_dirs
_shtab_streamctl_create___ca_COMPGEN=_shtab_compgen_files
_shtab_streamctl_create___cert_COMPGEN=_shtab_compgen_files
_shtab_streamctl_create___key_COMPGEN=_shtab_compgen_files
_shtab_streamctl_delete_pos_0_COMPGEN=_streamctl_topics
_shtab_streamctl_delete___ca_COMPGEN=_shtab_compgen_files
_shtab_streamctl_delete___cert_COMPGEN=_shtab_compgen_files
_shtab_streamctl_delete___key_COMPGEN=_shtab_compgen_files
_shtab_streamctl_seal_pos_0_COMPGEN=_streamctl_topics
_shtab_streamctl_seal___ca_COMPGEN=_shtab_compgen_files
_shtab_streamctl_seal___cert_COMPGEN=_shtab_compgen_files
_shtab_streamctl_seal___key_COMPGEN=_shtab_compgen_files
_shtab_streamctl_truncate_pos_0_COMPGEN=_streamctl_topics
_shtab_streamctl_truncate___ca_COMPGEN=_shtab_compgen_files
_shtab_streamctl_truncate___cert_COMPGEN=_shtab_compgen_files
_shtab_streamctl_truncate___key_COMPGEN=_shtab_compgen_files
_shtab_streamctl_groups_list_pos_0_COMPGEN=_streamctl_topics
_shtab_streamctl_groups_list___ca_COMPGEN=_shtab_compgen_files
_shtab_streamctl_groups_list___cert_COMPGEN=_shtab_compgen_files
_shtab_streamctl_groups_list___key_COMPGEN=_shtab_compgen_files
_shtab_streamctl_groups_show_pos_0_COMPGEN=_streamctl_topics
_shtab_streamctl_groups_show___ca_COMPGEN=_shtab_compgen_files
_shtab_streamctl_groups_show___cert_COMPGEN=_shtab_compgen_files
_shtab_streamctl_groups_show___key_COMPGEN=_shtab_compgen_files
_shtab_streamctl_groups_reset_pos_0_COMPGEN=_streamctl_topics
_shtab_streamctl_groups_reset___ca_COMPGEN=_shtab_compgen_files
_shtab_streamctl_groups_reset___cert_COMPGEN=_shtab_compgen_files
_shtab_streamctl_groups_reset___key_COMPGEN=_shtab_compgen_files
_shtab_streamctl_groups_delete_pos_0_COMPGEN=_streamctl_topics
_shtab_streamctl_groups_delete___ca_COMPGEN=_shtab_compgen_files
_shtab_streamctl_groups_delete___cert_COMPGEN=_shtab_compgen_files
_shtab_streamctl_groups_delete___key_COMPGEN=_shtab_compgen_files
_shtab_streamctl_groups_set_pos_0_COMPGEN=_streamctl_topics
_shtab_streamctl_groups_set___ca_COMPGEN=_shtab_compgen_files
_shtab_streamctl_groups_set___cert_COMPGEN=_shtab_compgen_files
_shtab_streamctl_groups_set___key_COMPGEN=_shtab_compgen_files
_shtab_streamctl_groups_set___dead_letter_COMPGEN=_streamctl_topics
_shtab_streamctl_groups_consume_pos_0_COMPGEN=_streamctl_topics
_shtab_streamctl_groups_consume___ca_COMPGEN=_shtab_compgen_files
_shtab_streamctl_groups_consume___cert_COMPGEN=_shtab_compgen_files
_shtab_streamctl_groups_consume___key_COMPGEN=_shtab_compgen_files
_shtab_streamctl_groups_dead_pos_0_COMPGEN=_streamctl_topics
_shtab_streamctl_groups_dead___ca_COMPGEN=_shtab_compgen_files
_shtab_streamctl_groups_dead___cert_COMPGEN=_shtab_compgen_files
_shtab_streamctl_groups_dead___key_COMPGEN=_shtab_compgen_files
_shtab_streamctl_publish_pos_0_COMPGEN=_streamctl_topics
_shtab_streamctl_publish__i_COMPGEN=_shtab_compgen_files
_shtab_streamctl_publish___file_COMPGEN=_shtab_compgen_files
_shtab_streamctl_publish___ca_COMPGEN=_shtab_compgen_files
_shtab_streamctl_publish___cert_COMPGEN=_shtab_compgen_files
_shtab_streamctl_publish___key_COMPGEN=_shtab_compgen_files
_shtab_streamctl_tail_pos_0_COMPGEN=_streamctl_topics
_shtab_streamctl_tail___ca_COMPGEN=_shtab_compgen_files
_shtab_streamctl_tail___cert_COMPGEN=_shtab_compgen_files
_shtab_streamctl_tail___key_COMPGEN=_shtab_compgen_files
_shtab_streamctl_tail___path_COMPGEN=_shtab_compgen_dirs
_shtab_streamctl_export_pos_0_COMPGEN=_streamctl_topics
_shtab_streamctl_export__o_COMPGEN=_shtab_compgen_files
_shtab_streamctl_export___output_COMPGEN=_shtab_compgen_files
_shtab_streamctl_export___ca_COMPGEN=_shtab_compgen_files
_shtab_streamctl_export___cert_COMPGEN=_shtab_compgen_files
_shtab_streamctl_export___key_COMPGEN=_shtab_compgen_files
_shtab_streamctl_export___path_COMPGEN=_shtab_compgen_dirs
_shtab_streamctl_import_pos_0_COMPGEN=_streamctl_topics
_shtab_streamctl_import_pos_1_COMPGEN=_shtab_compgen_files
_shtab_streamctl_import___ca_COMPGEN=_shtab_compgen_files
_shtab_streamctl_import___cert_COMPGEN=_shtab_compgen_files
_shtab_streamctl_import___key_COMPGEN=_shtab_compgen_files
_shtab_streamctl_copy_pos_0_COMPGEN=_streamctl_topics
_shtab_streamctl_copy___ca_COMPGEN=_shtab_compgen_files
_shtab_streamctl_copy___cert_COMPGEN=_shtab_compgen_files
_shtab_streamctl_copy___key_COMPGEN=_shtab_compgen_files
_shtab_streamctl_copy___path_COMPGEN=_shtab_compgen_dirs
_shtab_streamctl_top___ca_COMPGEN=_shtab_compgen_files
_shtab_streamctl_top___cert_COMPGEN=_shtab_compgen_files
_shtab_streamctl_top___key_COMPGEN=_shtab_compgen_files
_shtab_streamctl_top___path_COMPGEN=_shtab_compgen_dirs
_shtab_streamctl_bench___dir_COMPGEN=_shtab_compgen_dirs
_shtab_streamctl_bench___ca_COMPGEN=_shtab_compgen_files
_shtab_streamctl_bench___cert_COMPGEN=_shtab_compgen_files
_shtab_streamctl_bench___key_COMPGEN=_shtab_compgen_files
_shtab_streamctl_verify___path_COMPGEN=_shtab_compgen_dirs
_shtab_streamctl_verify___backup_COMPGEN=_shtab_compgen_dirs
_shtab_streamctl_repair___path_COMPGEN=_shtab_compgen_dirs
_shtab_streamctl_backup_pos_0_COMPGEN=_shtab_compgen_dirs
_shtab_streamctl_backup___path_COMPGEN=_shtab_compgen_dirs
_shtab_streamctl_restore_pos_0_COMPGEN=_shtab_compgen_dirs
_shtab_streamctl_restore_pos_1_COMPGEN=_shtab_compgen_dirs
_shtab_streamctl_config_check_pos_0_COMPGEN=_shtab_compgen_files
_shtab_streamctl_archive_pos_0_COMPGEN=_streamctl_topics
_shtab_streamctl_archive___path_COMPGEN=_shtab_compgen_dirs
_shtab_streamctl_pipeline_run_pos_0_COMPGEN=_shtab_compgen_files
_shtab_streamctl_pipeline_check_pos_0_COMPGEN=_shtab_compgen_files

_shtab_streamctl_groups_consume___ack_choices=(yes no nack)
_shtab_streamctl_groups_pos_0_choices=(list show reset delete set consume dead)
_shtab_streamctl_export___format_choices=(jsonl parquet)
_shtab_streamctl_config_pos_0_choices=(check)
_shtab_streamctl_context_pos_0_choices=(list set use remove)
_shtab_streamctl_archive___format_choices=(json csv smq)
_shtab_streamctl_archive___on_data_loss_choices=(fail skip)
_shtab_streamctl_pipeline_pos_0_choices=(run check)
_shtab_streamctl_pos_0_choices=(topics info create delete seal truncate groups publish tail export import copy top bench verify repair backup restore config context archive pipeline)

_shtab_streamctl_topics__h_nargs=0
_shtab_streamctl_topics___help_nargs=0
_shtab_streamctl_topics___tls_nargs=0
_shtab_streamctl_topics___json_nargs=0
_shtab_streamctl_topics___names_nargs=0
_shtab_streamctl_info__h_nargs=0
_shtab_streamctl_info___help_nargs=0
_shtab_streamctl_info___tls_nargs=0
_shtab_streamctl_info___json_nargs=0
_shtab_streamctl_create_pos_0_nargs=+
_shtab_streamctl_create__h_nargs=0
_shtab_streamctl_create___help_nargs=0
_shtab_streamctl_create___tls_nargs=0
_shtab_streamctl_create___json_nargs=0
_shtab_streamctl_create___exist_ok_nargs=0
_shtab_streamctl_delete_pos_0_nargs=+
_shtab_streamctl_delete__h_nargs=0
_shtab_streamctl_delete___help_nargs=0
_shtab_streamctl_delete___tls_nargs=0
_shtab_streamctl_delete___json_nargs=0
_shtab_streamctl_delete___yes_nargs=0
_shtab_streamctl_seal_pos_0_nargs=+
_shtab_streamctl_seal__h_nargs=0
_shtab_streamctl_seal___help_nargs=0
_shtab_streamctl_seal___tls_nargs=0
_shtab_streamctl_seal___json_nargs=0
_shtab_streamctl_truncate__h_nargs=0
_shtab_streamctl_truncate___help_nargs=0
_shtab_streamctl_truncate___tls_nargs=0
_shtab_streamctl_truncate___json_nargs=0
_shtab_streamctl_groups_list__h_nargs=0
_shtab_streamctl_groups_list___help_nargs=0
_shtab_streamctl_groups_list___tls_nargs=0
_shtab_streamctl_groups_list___json_nargs=0
_shtab_streamctl_groups_show__h_nargs=0
_shtab_streamctl_groups_show___help_nargs=0
_shtab_streamctl_groups_show___tls_nargs=0
_shtab_streamctl_groups_show___json_nargs=0
_shtab_streamctl_groups_reset__h_nargs=0
_shtab_streamctl_groups_reset___help_nargs=0
_shtab_streamctl_groups_reset___tls_nargs=0
_shtab_streamctl_groups_reset___json_nargs=0
_shtab_streamctl_groups_reset___apply_nargs=0
_shtab_streamctl_groups_reset___force_nargs=0
_shtab_streamctl_groups_delete__h_nargs=0
_shtab_streamctl_groups_delete___help_nargs=0
_shtab_streamctl_groups_delete___tls_nargs=0
_shtab_streamctl_groups_delete___json_nargs=0
_shtab_streamctl_groups_delete___yes_nargs=0
_shtab_streamctl_groups_delete___force_nargs=0
_shtab_streamctl_groups_set__h_nargs=0
_shtab_streamctl_groups_set___help_nargs=0
_shtab_streamctl_groups_set___tls_nargs=0
_shtab_streamctl_groups_set___json_nargs=0
_shtab_streamctl_groups_set___clear_nargs=0
_shtab_streamctl_groups_consume__h_nargs=0
_shtab_streamctl_groups_consume___help_nargs=0
_shtab_streamctl_groups_consume___tls_nargs=0
_shtab_streamctl_groups_consume___raw_nargs=0
_shtab_streamctl_groups_consume___json_nargs=0
_shtab_streamctl_groups_consume__f_nargs=0
_shtab_streamctl_groups_consume___follow_nargs=0
_shtab_streamctl_groups_consume___latest_nargs=0
_shtab_streamctl_groups_dead__h_nargs=0
_shtab_streamctl_groups_dead___help_nargs=0
_shtab_streamctl_groups_dead___tls_nargs=0
_shtab_streamctl_groups_dead___json_nargs=0
_shtab_streamctl_groups_dead___all_nargs=0
_shtab_streamctl_groups_dead___send_back_nargs=0
_shtab_streamctl_groups_dead___apply_nargs=0
_shtab_streamctl_groups_pos_0_nargs=A...
_shtab_streamctl_groups__h_nargs=0
_shtab_streamctl_groups___help_nargs=0
_shtab_streamctl_publish_pos_1_nargs='*'
_shtab_streamctl_publish__h_nargs=0
_shtab_streamctl_publish___help_nargs=0
_shtab_streamctl_publish___whole_nargs=0
_shtab_streamctl_publish___create_nargs=0
_shtab_streamctl_publish___wait_nargs=0
_shtab_streamctl_publish___no_progress_nargs=0
_shtab_streamctl_publish___json_nargs=0
_shtab_streamctl_publish___tls_nargs=0
_shtab_streamctl_tail__h_nargs=0
_shtab_streamctl_tail___help_nargs=0
_shtab_streamctl_tail__f_nargs=0
_shtab_streamctl_tail___follow_nargs=0
_shtab_streamctl_tail___raw_nargs=0
_shtab_streamctl_tail___json_nargs=0
_shtab_streamctl_tail___tls_nargs=0
_shtab_streamctl_export_pos_0_nargs=+
_shtab_streamctl_export__h_nargs=0
_shtab_streamctl_export___help_nargs=0
_shtab_streamctl_export___json_nargs=0
_shtab_streamctl_export___tls_nargs=0
_shtab_streamctl_import_pos_1_nargs='*'
_shtab_streamctl_import__h_nargs=0
_shtab_streamctl_import___help_nargs=0
_shtab_streamctl_import___create_nargs=0
_shtab_streamctl_import___json_nargs=0
_shtab_streamctl_import___tls_nargs=0
_shtab_streamctl_copy__h_nargs=0
_shtab_streamctl_copy___help_nargs=0
_shtab_streamctl_copy__f_nargs=0
_shtab_streamctl_copy___follow_nargs=0
_shtab_streamctl_copy___create_nargs=0
_shtab_streamctl_copy___json_nargs=0
_shtab_streamctl_copy___tls_nargs=0
_shtab_streamctl_top__h_nargs=0
_shtab_streamctl_top___help_nargs=0
_shtab_streamctl_top___json_nargs=0
_shtab_streamctl_top___tls_nargs=0
_shtab_streamctl_bench__h_nargs=0
_shtab_streamctl_bench___help_nargs=0
_shtab_streamctl_bench___json_nargs=0
_shtab_streamctl_bench___tls_nargs=0
_shtab_streamctl_verify__h_nargs=0
_shtab_streamctl_verify___help_nargs=0
_shtab_streamctl_verify___json_nargs=0
_shtab_streamctl_verify___no_progress_nargs=0
_shtab_streamctl_repair__h_nargs=0
_shtab_streamctl_repair___help_nargs=0
_shtab_streamctl_repair___json_nargs=0
_shtab_streamctl_repair___no_progress_nargs=0
_shtab_streamctl_repair___apply_nargs=0
_shtab_streamctl_backup__h_nargs=0
_shtab_streamctl_backup___help_nargs=0
_shtab_streamctl_backup___json_nargs=0
_shtab_streamctl_backup___no_progress_nargs=0
_shtab_streamctl_backup___list_nargs=0
_shtab_streamctl_restore__h_nargs=0
_shtab_streamctl_restore___help_nargs=0
_shtab_streamctl_restore___json_nargs=0
_shtab_streamctl_restore___no_progress_nargs=0
_shtab_streamctl_config_check__h_nargs=0
_shtab_streamctl_config_check___help_nargs=0
_shtab_streamctl_config_check___json_nargs=0
_shtab_streamctl_config_pos_0_nargs=A...
_shtab_streamctl_config__h_nargs=0
_shtab_streamctl_config___help_nargs=0
_shtab_streamctl_context_list__h_nargs=0
_shtab_streamctl_context_list___help_nargs=0
_shtab_streamctl_context_list___json_nargs=0
_shtab_streamctl_context_set__h_nargs=0
_shtab_streamctl_context_set___help_nargs=0
_shtab_streamctl_context_set___json_nargs=0
_shtab_streamctl_context_use__h_nargs=0
_shtab_streamctl_context_use___help_nargs=0
_shtab_streamctl_context_use___json_nargs=0
_shtab_streamctl_context_remove__h_nargs=0
_shtab_streamctl_context_remove___help_nargs=0
_shtab_streamctl_context_remove___json_nargs=0
_shtab_streamctl_context_pos_0_nargs=A...
_shtab_streamctl_context__h_nargs=0
_shtab_streamctl_context___help_nargs=0
_shtab_streamctl_archive_pos_0_nargs=+
_shtab_streamctl_archive__h_nargs=0
_shtab_streamctl_archive___help_nargs=0
_shtab_streamctl_archive___json_nargs=0
_shtab_streamctl_pipeline_run__h_nargs=0
_shtab_streamctl_pipeline_run___help_nargs=0
_shtab_streamctl_pipeline_run___once_nargs=0
_shtab_streamctl_pipeline_run___json_nargs=0
_shtab_streamctl_pipeline_check__h_nargs=0
_shtab_streamctl_pipeline_check___help_nargs=0
_shtab_streamctl_pipeline_check___json_nargs=0
_shtab_streamctl_pipeline_pos_0_nargs=A...
_shtab_streamctl_pipeline__h_nargs=0
_shtab_streamctl_pipeline___help_nargs=0
_shtab_streamctl_pos_0_nargs=A...
_shtab_streamctl__h_nargs=0
_shtab_streamctl___help_nargs=0
_shtab_streamctl___version_nargs=0



_streamctl_topics() {
  local name typed="${1//\\/}"
  [[ "${COMP_WORDS[*]}" == *\ --@(server|context|tls|ca|path)* ]] && return
  timeout 1 streamctl topics --names 2>/dev/null | while IFS= read -r name; do
    if [[ "$name" == "${typed#[\'\"]}"* ]]; then
      [[ "$typed" == [\'\"]* ]] && printf '%s\n' "$name" || printf '%q\n' "$name"
    fi
  done
}

_shtab_compgen_files() {
  compgen -f -- $1  # files
}

_shtab_compgen_dirs() {
  compgen -d -- $1  # recurse into subdirs
}

_shtab_replace_nonword() {
  echo "${1//[^[:word:]]/_}"
}

_set_parser_defaults() {
  local subparsers_var="${prefix}_subparsers[@]"
  sub_parsers=${!subparsers_var-}

  local current_option_strings_var="${prefix}_option_strings[@]"
  current_option_strings=${!current_option_strings_var}

  completed_positional_actions=0

  _set_new_action "pos_$completed_positional_actions" true
}

_set_new_action() {
  current_action="${prefix}_$(_shtab_replace_nonword $1)"

  local current_action_compgen_var=${current_action}_COMPGEN
  current_action_compgen="${!current_action_compgen_var-}"

  local current_action_choices_var="${current_action}_choices[@]"
  current_action_choices="${!current_action_choices_var-}"

  local current_action_nargs_var="${current_action}_nargs"
  if [ -n "${!current_action_nargs_var-}" ]; then
    current_action_nargs="${!current_action_nargs_var}"
  else
    current_action_nargs=1
  fi

  current_action_args_start_index=$(( $word_index + 1 - $pos_only ))

  current_action_is_positional=$2
}

_shtab_streamctl() {
  local completing_word="${COMP_WORDS[COMP_CWORD]}"
  local previous_word="${COMP_WORDS[COMP_CWORD-1]}"
  local completed_positional_actions
  local current_action
  local current_action_args_start_index
  local current_action_choices
  local current_action_compgen
  local current_action_is_positional
  local current_action_nargs
  local current_option_strings
  local sub_parsers
  COMPREPLY=()

  local prefix=_shtab_streamctl
  local word_index=0
  local pos_only=0 # "--" delimiter not encountered yet
  _set_parser_defaults
  word_index=1

  while [ $word_index -ne $COMP_CWORD ]; do
    local this_word="${COMP_WORDS[$word_index]}"

    if [[ $pos_only = 1 || " $this_word " != " -- " ]]; then
      if [[ -n $sub_parsers && " ${sub_parsers[@]} " == *" $this_word "* ]]; then
        prefix="${prefix}_$(_shtab_replace_nonword $this_word)"
        _set_parser_defaults
      fi

      if [[ " ${current_option_strings[@]} " == *" $this_word "* ]]; then
        _set_new_action $this_word false
      fi

      if [[ "$current_action_nargs" != "*" ]] && \
         [[ "$current_action_nargs" != "+" ]] && \
         [[ "$current_action_nargs" != "?" ]] && \
         [[ "$current_action_nargs" != *"..." ]] && \
         (( $word_index + 1 - $current_action_args_start_index - $pos_only >= \
            $current_action_nargs )); then
        $current_action_is_positional && let "completed_positional_actions += 1"
        _set_new_action "pos_$completed_positional_actions" true
      fi
    else
      pos_only=1 # "--" delimiter encountered
    fi

    let "word_index+=1"
  done


  COMPREPLY=()
  if [[ $pos_only = 0 && "$completing_word" == -* &&
        ( -z "$current_action_compgen" || "$current_action_is_positional" = true ) ]]; then
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(
      compgen -W "${current_option_strings[*]}" -- "$completing_word")
  elif [[ "$previous_word" =~ ^[0-9\&]*[\<\>]\>?$ ]]; then
    compopt -o filenames 2>/dev/null || : # bash>=4
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$completing_word")
  else
    local action_compgen_word="$completing_word"
    [[ -n "$current_action_compgen" && "$completing_word" == -* ]] && action_compgen_word=""
    [ -n "$current_action_compgen" ] && {
      [[ "$current_action_compgen" =~ _(file|dir|glob|FILE|DIR|GLOB)|File|Dir|Glob ]] &&
        compopt -o filenames 2>/dev/null || : # bash>=4
      while IFS= read -r line; do COMPREPLY+=("$line"); done < <(
        "$current_action_compgen" "$action_compgen_word")
    }
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(
      compgen -W "${current_action_choices[*]}" -- "$completing_word")
  fi

  if [[ ${#COMPREPLY[@]} = 0 ]]; then
    compopt +o filenames 2>/dev/null || : # bash>=4
  fi

  return 0
}

complete -o bashdefault -F _shtab_streamctl streamctl
