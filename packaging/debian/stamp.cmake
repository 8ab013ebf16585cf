# SPDX-License-Identifier: Apache-2.0
# Gives everything that goes into the package the commit's time, and directories a mode that is not the builder's umask.
execute_process(
	COMMAND find ${CPACK_TEMPORARY_DIRECTORY} -type d -exec chmod 755 {} +
	COMMAND_ERROR_IS_FATAL ANY)
execute_process(
	COMMAND find ${CPACK_TEMPORARY_DIRECTORY} -exec touch --no-dereference --date=@$ENV{SOURCE_DATE_EPOCH} {} +
	COMMAND_ERROR_IS_FATAL ANY)
