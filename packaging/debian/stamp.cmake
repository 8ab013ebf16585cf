# SPDX-License-Identifier: Apache-2.0
# Gives every file that goes into the package the commit's time.
execute_process(
	COMMAND find ${CPACK_TEMPORARY_DIRECTORY} -exec touch --no-dereference --date=@$ENV{SOURCE_DATE_EPOCH} {} +
	COMMAND_ERROR_IS_FATAL ANY)
